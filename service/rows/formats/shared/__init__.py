"""What several formats need: archives, cells of numbers, rows written as the training file."""
