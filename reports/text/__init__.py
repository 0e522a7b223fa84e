"""Formatted numbers, names, and the sentences on findings, limitations and data.

May import `reports.data`; `numbers` imports nothing of this project.
"""
