"""Help a step: AdamW, averaged weights against noise, recomputed and compiled parts against memory and time."""
