"""The page: its sections, its template, and the function that writes the report; may import all of
`reports`."""
