"""Training sources: which data sets there are, how their files are found, and how rows become
documents.

`repositories` finds the files of a data set, `files` reads their rows, `columns` makes texts of
columns. May import `pipeline/storage/` and `pipeline/errors.py`. The benchmarks read their data
with these modules too."""
