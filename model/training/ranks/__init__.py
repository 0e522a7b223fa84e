"""Train one run by several processes: start and stop ranks, and add up their gradients."""
