"""Imports of exported models: untrusted files, read and checked part by part."""
