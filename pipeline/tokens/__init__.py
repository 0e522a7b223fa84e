"""Tokens: the tokenizer, and documents encoded, shuffled and packed into rows of one length.

May import `pipeline.storage`, `pipeline.errors` and `pipeline.progress`.
"""
