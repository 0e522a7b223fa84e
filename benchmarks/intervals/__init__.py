"""Intervals of the mean factor: how often they contain the truth, on simulated and on repeated
studies."""
