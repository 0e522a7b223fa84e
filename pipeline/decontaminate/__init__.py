"""Removing documents that contain benchmark items."""
