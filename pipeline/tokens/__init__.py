"""Documents as packed tokens."""
