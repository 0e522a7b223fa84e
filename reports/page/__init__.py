"""The page: its sections, its template, and the function that writes the report.

May import all of `reports`.
"""
