"""Record a run while it trains: log, tables, progress, and when its state is saved."""
