"""Statistics that SQL cannot compute: intervals of factors, and paired tests of two studies.

May import numpy, scipy, pandas, `sql.connection`, `sql.ingest`, `sql.names` and `pipeline.errors`.
"""
