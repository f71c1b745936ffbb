"""A binary problem, its objective and its certificate."""
