"""Jobs that predict all rows of a dataset and write a file."""
