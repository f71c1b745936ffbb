"""From what a format's reader has read to the arrays and the description of a dataset."""
