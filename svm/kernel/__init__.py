"""Kernels, and rows of their values."""
