"""Curation at size: throughput and recall on a synthetic corpus (`python -m benchmarks.curation`)."""
