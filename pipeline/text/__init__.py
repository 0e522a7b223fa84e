"""The normal form of text, and its words and n-grams as 64-bit ids in flat arrays.

May import `pipeline/errors.py` and nothing else of the pipeline."""
