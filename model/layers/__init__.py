"""The parts of a Dreamer: rotary codes, routing, experts, projections and attentions.

`model/dreamer.py` puts them together. Names of tensors end in their axes, which that file lists.
"""
