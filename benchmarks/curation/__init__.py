"""Curation at size, on a synthetic corpus: deduplication alone (`deduplication`), all stages
(`whole`)."""
