"""Matrices, kinds of columns, rows in files, splits, random numbers, and the order of sums."""
