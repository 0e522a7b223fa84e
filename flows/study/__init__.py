"""The configuration of a study: sections validated by pydantic, loading of YAML files, presets.

Imports `pipeline` and `model` for the settings that they define, `sql` for measured noise; nothing else of `flows`."""
