"""The training loop around a solver: preparation, progress, checkpoints, warm starts, results."""
