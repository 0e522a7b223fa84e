"""Architectures of any origin: Dreamer, classes of users, models of transformers.

`model.architectures.build` builds a network from its description, `model.architectures.count_flops`
counts its costs.
"""
