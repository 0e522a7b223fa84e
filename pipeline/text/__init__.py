"""The normal form of text, and flat arrays of words."""
