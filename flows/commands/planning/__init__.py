"""Say in advance what a study costs: `dreamer plan`."""
