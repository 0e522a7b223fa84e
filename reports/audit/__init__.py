"""Audit curation by eye: documents that were dropped, beside what caused that.

They are shown as rows and as a page of their own.
"""
