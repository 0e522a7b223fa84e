"""Training sources: which data sets there are, where their files lie, and how rows of them become documents.

May import `pipeline.storage`; the benchmarks read their data with these modules too.
"""
