"""Take curves that were trained elsewhere: read and check their points, and enter them as the rows
of a study.

May import pandas, pyarrow, `sql/` and `pipeline/errors.py`; never torch, Prefect, nor the other
rooms of `reports/`.
"""
