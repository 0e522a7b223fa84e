"""The C engine for one CPU core: sources, compilation, checked calls, autograd functions.

Imports torch, and from `model/ops/` nothing but what the engine interface (engine.py) needs."""
