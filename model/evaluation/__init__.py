"""Evaluating checkpoints: tasks, scoring, the lm-eval adapter."""
