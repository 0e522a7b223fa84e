"""Colours, marker shapes, style sheet and script of the page; may import the constants of `reports.data`."""
