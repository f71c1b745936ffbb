"""Where state lives: a database of rows, and files that rows name."""
