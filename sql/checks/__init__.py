"""The SQL files of views that must be without rows.

May need macros and views.
"""
