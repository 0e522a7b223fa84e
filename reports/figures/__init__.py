"""Vega-Lite figures, one module for each subject.

All are over `chart` (marks, axes) and `rendering` (SVG, PDF, PNG). May import `reports/data.py`,
`reports/style/` and `reports/text/`.
"""
