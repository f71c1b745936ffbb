"""The requests, routes and replies that jobs of every kind share."""
