"""Tables as plain data for the page, one module for each subject, over `cells`.

May import `reports/data.py`, `reports/style/` and `reports/text/`.
"""
