"""The pages of the service in a real browser."""
