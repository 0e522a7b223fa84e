"""The configuration of a study: sections validated by pydantic, loading of YAML files, presets.

Imports `pipeline` and `model` for the settings that they define; of `flows` nothing else."""
