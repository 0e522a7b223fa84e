"""Colours, marker shapes, style sheet and script of the page.

May import the names of `sql/names.py`.
"""
