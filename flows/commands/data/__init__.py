"""Fetch data sets and look at what became of the rows: `dreamer sources`, `download`, `dropped`,
`preview`."""
