"""Find the files of a data set, in the mirror or in what was fetched before, and fetch them."""
