"""Watch a study that runs: progress for terminals and files, silent processes, locks, disks."""
