"""Evaluate checkpoints: from job files over tasks, scoring and generation to rows of tables.

May import `model/`, `model/ops/`, `model/training/`, and errors and files of `pipeline/`. Only the
modules `lm_eval_*.py` import lm-eval.
"""
