"""Child processes, devices and progress."""
