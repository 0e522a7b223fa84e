"""Read rows of Parquet, JSON lines, JSON and CSV files, in blocks of bounded size."""
