"""Jobs that train a model."""
