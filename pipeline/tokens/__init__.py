"""Tokens: the tokenizer, and documents encoded, held out for validation, or shuffled and packed into rows of one length.

May import `pipeline.storage`, `pipeline.text`, `pipeline.errors` and `pipeline.progress`.
"""
