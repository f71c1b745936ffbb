"""Backups of rows and files, how they are restored, and checks of both."""
