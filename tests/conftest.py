"""Settings of all tests."""

import os

from hypothesis import settings

# as in trainers and evaluators: sums over two threads are rounded otherwise
os.environ["OMP_NUM_THREADS"] = "1"

# a slow machine is no failure of what is tested
settings.register_profile("shared-machines", deadline=None)
settings.load_profile("shared-machines")
