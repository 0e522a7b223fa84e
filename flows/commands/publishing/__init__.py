"""Make a folder of a study that others can use: `dreamer publish`."""
