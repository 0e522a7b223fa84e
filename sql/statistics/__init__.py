"""Statistics that SQL cannot compute: bootstrap intervals, power-law fits, paired tests of two studies.

May import numpy, scipy, pandas, `sql.connection`, `sql.ingest` and `pipeline.errors`.
"""
