"""Architectures of anybody's: their code, their costs, and whether they meet the contract.

`build.py` builds a network from its description, `count_flops.py` counts its costs, and
`check_contract.py` checks that the network meets `model/contract.py`.
"""
