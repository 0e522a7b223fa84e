"""The SQL files of views, and of table macros (views with arguments), by subject.

May need macros and other views.
"""
