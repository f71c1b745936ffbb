"""One module for each family of formats: what reads an upload, and rows to predict."""
