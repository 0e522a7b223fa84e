"""Architectures of anybody's: the contract that a network meets, its description, its code, models of transformers.

`model.networks` builds a network from its description, `model.networks.counting` counts its costs.
"""
