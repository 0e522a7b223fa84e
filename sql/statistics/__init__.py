"""Statistics that SQL cannot compute: intervals of factors over seeds and items, paired tests of
two studies.

May import numpy, scipy, pandas, `sql.connection`, `sql.ingest`, `sql.names` and `pipeline.errors`.
"""
