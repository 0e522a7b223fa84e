"""Formatted numbers (import nothing of this project), names, and the sentences on findings,
limitations and data.

May import `reports/data.py`.
"""
