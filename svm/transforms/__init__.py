"""Transforms that are learned before a training: scaling and feature maps."""
