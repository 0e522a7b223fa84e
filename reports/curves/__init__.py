"""Take curves that were trained elsewhere: check their points, enter them as a study.

May import pandas, pyarrow, `sql/` and `pipeline/errors.py`; never torch, Prefect, nor the other
rooms of `reports/`.
"""
