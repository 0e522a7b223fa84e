"""Train a run: token stream, optimiser step, resume states and checkpoints, ranks, records.

May import model, model.ops and pipeline's errors and files; imported by evaluation and profiling.
"""
