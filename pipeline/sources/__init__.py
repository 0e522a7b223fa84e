"""Training sources: which data sets there are, how their files are found, and how rows become documents.

May import `pipeline.storage`, `pipeline.errors` and `pipeline.progress`. The benchmarks read their data with these
modules too.
"""
