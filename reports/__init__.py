"""The HTML report of a study and its figures: data, style, text, figures, tables, page, in the
order of imports.

Reads the views of the results database and computes no result; may import `sql` and
`pipeline/errors.py`.
"""
