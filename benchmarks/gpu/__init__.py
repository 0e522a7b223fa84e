"""GPUs: measure everything on one GPU (`python -m benchmarks.gpu`), or count its work without one (`counts`)."""
