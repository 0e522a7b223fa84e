"""Train a run: token stream, trainer, ranks, records, resume states and checkpoints.

May import model, model.ops and pipeline's errors and files; evaluation imports its stream and its
provenance.
"""
