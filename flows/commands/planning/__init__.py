"""Know beforehand what a study costs: `dreamer plan`, with estimates from FLOPs and sizes."""
