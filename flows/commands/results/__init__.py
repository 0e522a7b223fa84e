"""Read the results of a study: `dreamer sql`, `export`, `intervals`, `report`, `compare`."""
