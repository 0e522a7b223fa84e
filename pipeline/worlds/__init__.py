"""The built-in world: generated problems with ground truth."""
