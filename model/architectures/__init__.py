"""Architectures of any origin: Dreamer, classes of users, models of transformers.

`build.py` builds a network from its description, `count_flops.py` counts its costs, and
`check_contract.py` checks that the network meets `model/contract.py`.
"""
