"""Settings of all tests."""

import os

from hypothesis import settings

os.environ["OMP_NUM_THREADS"] = "1"  # as in trainers and evaluators: sums over two threads are rounded otherwise

settings.register_profile("shared-machines", deadline=None)  # a slow machine is no failure of what is tested
settings.load_profile("shared-machines")
