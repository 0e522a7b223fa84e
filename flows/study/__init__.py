"""What a study is: the YAML file and the presets."""
