"""The HTML report of a study and its figures.

In the order of imports: data, style, text, figures, tables, page.

Reads the views of the results database and computes no result; may import `sql` and
`pipeline/errors.py`.
"""
