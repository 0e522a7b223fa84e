"""Training one run: the token stream, the optimiser step, checkpoints, ranks."""
