"""Know in advance what a study costs: `dreamer plan`, with estimates from rates and sizes."""
