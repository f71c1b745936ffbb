"""What all routes share, and the server; only routes and the application import it."""
