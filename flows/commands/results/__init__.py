"""Read the results of a study: `dreamer sql`, `export`, `migrate`, `report`, `compare`."""
