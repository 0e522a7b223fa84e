"""What follows from a study: outputs, models, runs, evaluations, each with key, folder, `done`."""
