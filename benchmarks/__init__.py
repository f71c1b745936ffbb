"""Measurements, run with `make bench`: peers and limits side by side in one run, as ratios."""
