"""Read the forms in which curves are found: tables, exports, logs, and results of harnesses."""
