"""Predictions while the caller waits: rows are read, scored in batches, and answered."""
