"""The HTTP service: datasets in, training in the background, models kept, predictions out."""

__version__ = "0.1.0"
