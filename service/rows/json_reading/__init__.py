"""JSON in bytes: lists of numbers at once, and long documents element by element."""
