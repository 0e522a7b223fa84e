"""Read the results of a study: `dreamer sql`, `export`, `migrate`, `intervals`, `report`, `compare`."""
