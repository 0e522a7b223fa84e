"""Curation at size, on a synthetic corpus: deduplication alone beside rensa (`deduplication`), all stages (`whole`)."""
