"""Commands before a study: its file, and the schema of such files."""
