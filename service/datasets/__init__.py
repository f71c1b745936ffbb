"""Datasets: uploaded, appended to, split, listed, downloaded."""
