"""Deduplication of whole documents: exact and near duplicates, a cap on responses per question.

May import `pipeline/text/`, `pipeline/storage/` and `pipeline/errors.py`; not
`pipeline/decontaminate/`.
"""
