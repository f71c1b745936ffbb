"""Tables with categories, dates and gaps as numbers, learned from the training rows."""
