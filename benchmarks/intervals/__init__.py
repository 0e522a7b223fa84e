"""Intervals of the ratio: how often they contain the truth, in simulated and repeated studies."""
