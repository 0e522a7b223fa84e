"""Statistics that SQL cannot compute: intervals of factors, and paired tests of two studies.

May import numpy, scipy, pandas, `pipeline/errors.py`, and of `sql/` the modules `connection.py`,
`ingest.py` and `names.py`.
"""
