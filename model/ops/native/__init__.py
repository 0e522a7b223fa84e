"""The C engine for one CPU core: C sources, their compilation, calls with checked shapes, and
autograd functions.

Imports torch, and from `model/ops/` nothing but what the engine interface (engine.py) needs."""
