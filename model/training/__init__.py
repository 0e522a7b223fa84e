"""Train a run: token stream, trainer, ranks, resume states, checkpoints and provenance.

May import `model/`, `model/ops/`, and errors and files of `pipeline/`. `model/evaluation/` imports
`stream.py` and `provenance.py` of this folder.
"""
