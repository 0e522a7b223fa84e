"""Study presets, one YAML file each."""
