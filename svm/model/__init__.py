"""The trained model: a plain value that scores rows, its metrics and its serialization."""
