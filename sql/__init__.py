"""The results database: its schema, one SQL file per view, and the few functions that open, fill and query it."""
