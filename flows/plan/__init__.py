"""What follows from a study: outputs, models, runs, checkpoints and evaluations, each with key,
folder and `done`."""
