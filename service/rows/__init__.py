"""Rows of data in all formats: uploads, rows to predict, downloads."""
