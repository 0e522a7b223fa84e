"""Colours, marker shapes, style sheet and script of the page; may import the names of
`sql/names.py`."""
