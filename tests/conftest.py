"""Settings of all tests."""

from hypothesis import settings

settings.register_profile("shared-machines", deadline=None)  # a slow machine is no failure of what is tested
settings.load_profile("shared-machines")
