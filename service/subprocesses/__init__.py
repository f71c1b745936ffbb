"""Child processes for large, slow or risky work, with requests and replies as lines of JSON."""
