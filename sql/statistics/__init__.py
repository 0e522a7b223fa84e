"""Statistics that SQL cannot compute: intervals of ratios, and paired tests of two studies.

This package may import numpy, scipy, pandas, `pipeline/errors.py`, and the modules `connection.py`,
`ingest.py` and `names.py` of `sql/`.
"""
