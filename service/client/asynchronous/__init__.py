"""A client, its resources, and the session that sends its calls."""
