"""Evaluate checkpoints: job files, tasks, batched scoring and generation, the lm-eval adapter, rows
of result tables.

May import model, model.ops, model.training and pipeline's errors, files; only `lm_eval_*.py` import
lm-eval.
"""
