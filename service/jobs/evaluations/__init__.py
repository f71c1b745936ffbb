"""Jobs that measure a model on a labeled dataset."""
