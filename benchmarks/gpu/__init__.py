"""A GPU: steps and kernels measured on one (`python -m benchmarks.gpu`), memory counted without one
(`memory`)."""
