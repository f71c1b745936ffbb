"""The routes and replies that jobs of every kind share."""
