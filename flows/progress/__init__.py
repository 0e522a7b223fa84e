"""Watch a study that runs: progress for terminals and files, processes that fall silent, the state
of everything."""
