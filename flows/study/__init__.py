"""The configuration of a study: sections that pydantic validates, YAML files, presets.

This package imports `pipeline` and `model`, which define settings, and nothing else of `flows`.
"""
