"""Measure where the time of a training step goes, by component, and write random token streams to measure speed on.

May import model, model.ops, model.training and pipeline.errors.
"""
