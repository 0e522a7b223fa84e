"""Run and watch a study: `dreamer run`, `status`, `checkpoints`."""
