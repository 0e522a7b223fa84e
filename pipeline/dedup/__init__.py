"""Deduplication: exact, near, and a cap per question."""
