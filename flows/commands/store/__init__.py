"""Check and clear what is stored: `dreamer verify`, `dreamer clean`."""
