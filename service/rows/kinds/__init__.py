"""What a file of texts or of JSON is: how it is written, and what each of its columns is."""
