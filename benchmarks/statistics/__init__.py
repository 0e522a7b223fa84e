"""Statistics: how often intervals contain the true factor, on simulated studies, and their CPU seconds."""
