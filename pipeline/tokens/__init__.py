"""Tokens: the tokenizer; documents encoded, held out for validation, shuffled and packed into rows
of one length.

May import `pipeline/storage/`, `pipeline/text/` and `pipeline/errors.py`."""
