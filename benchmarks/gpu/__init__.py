"""Measure training on one GPU (`python -m benchmarks.gpu`), or count operations and bytes without a GPU (`counts`)."""
