"""Architectures of anybody's: the contract that a network meets, its description, its code, models
of transformers.

`model.architectures.build` builds a network from its description, `model.architectures.count_flops`
counts its costs.
"""
