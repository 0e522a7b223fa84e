"""Estimate what a study will need, in numbers: data, models, time, disk, and what it detects."""
