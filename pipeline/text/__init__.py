"""The normal form of text, its words and n-grams as 64-bit ids in flat arrays, and set operations
on such arrays.

May import `pipeline/errors.py` and nothing else of the pipeline."""
