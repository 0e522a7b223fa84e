"""Intervals: how often they contain the true factor, on simulated and on repeated studies, and their CPU seconds."""
