"""The server's side of connections: the HTTP protocol, its limits, logs and metrics."""
