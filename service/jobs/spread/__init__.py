"""The passes of one training on many machines: Dask carries them, and knows nothing of jobs."""
