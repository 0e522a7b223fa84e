"""Take curves that were trained elsewhere: read their points from files, check them, and enter them as a study's rows.

May import pandas, pyarrow, `sql` and `pipeline.errors`; never torch, Prefect, nor the other rooms of `flows`.
"""
