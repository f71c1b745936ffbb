"""Processes beside the service, for work that is large, slow or risky: a line of JSON each way."""
