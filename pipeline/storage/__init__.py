"""Documents and stage outputs on disk."""
