"""Train a run: token stream, trainer, resume states and checkpoints; rooms for ranks, the step,
records and origins.

May import model, model.ops and pipeline's errors and files; evaluation imports its stream and its
origins.
"""
