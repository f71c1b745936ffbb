"""Exported models that come back: read and checked as what they are, files of strangers."""
