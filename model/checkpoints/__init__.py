"""Write and load checkpoints; checksums that find a flipped bit."""
