"""The atlas: what published architectures were measured to need, and where yours stands.

Its rows come with the package, one folder of `worlds` for each world of problems.
"""
