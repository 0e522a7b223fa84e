"""Evaluate checkpoints: from job files over tasks, scoring and generation to rows of tables.

May import model, model.ops, model.training and pipeline's errors, files; only `lm_eval_*.py` import
lm-eval.
"""
