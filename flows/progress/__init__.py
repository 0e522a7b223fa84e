"""Watch a study that runs: progress for terminals and files, the study's lock, disk space."""
