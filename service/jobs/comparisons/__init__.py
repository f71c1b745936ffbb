"""Jobs that train several models on the same rows and rank them."""
