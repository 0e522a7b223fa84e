"""Statistics that SQL cannot do."""
