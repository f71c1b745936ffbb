"""Parts of a running job that other workers may do, while no job waits for them."""
