"""Run a study, here or on a bare machine, and look on: `dreamer run`, `status`, `profile`, `checkpoints` and others."""
