# Generated from the module of this name in `asynchronous` by `make client`.
"""A client, its resources, and the session that sends its calls."""
