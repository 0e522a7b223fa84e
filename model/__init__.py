"""Dreamer, depth-recurrent attention mixtures: network, accounting, matching, training, generation, evaluation."""
