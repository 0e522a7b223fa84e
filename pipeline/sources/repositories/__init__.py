"""Find the files of a data set: in the mirror, in what was fetched before, or on the hub; fetch
them."""
