"""Name columns: paths into rows, and the expressions that make texts of them."""
