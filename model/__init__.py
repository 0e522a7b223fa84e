"""Networks: Dreamer and others, their costs, training and evaluation.

May import torch, the errors of `pipeline`, and the files, locks and manifests of its `storage`.
"""
