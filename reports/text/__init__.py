"""Formatted numbers, names, and the sentences on findings, limitations and data.

May import `reports/data.py`; `numbers` imports nothing of this project.
"""
