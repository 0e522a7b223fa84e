"""Dreamer, depth-recurrent attention mixtures: network, accounting, matching, training, generation, evaluation.

May import torch, `pipeline.errors` and `pipeline.storage.files`.
"""
