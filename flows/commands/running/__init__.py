"""Run a study and look on: `dreamer run`, `status`, `checkpoints`."""
