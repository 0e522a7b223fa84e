"""Train one run by several processes: start and stop ranks, add up their gradients, notice one that is lost."""
