"""Dreamer, depth-recurrent attention mixtures: network, accounting, matching, training, generation,
evaluation.

May import torch, the errors of `pipeline`, and the files, locks and manifests of its `storage`.
"""
