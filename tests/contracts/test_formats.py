"""Every format is in one table of the service, and in one of the client."""

from __future__ import annotations

from importlib import import_module

from service.client.rows import MEDIA_TYPES
from service.rows.format_table import FORMATS, SUFFIXES


def test_client_and_service_know_the_same_suffixes() -> None:
    """The client chooses the format of a file by its name, as a form does in the service."""
    assert MEDIA_TYPES == SUFFIXES


def test_every_format_can_be_uploaded() -> None:
    """Its function is there, though only the parsing process imports it."""
    for media_type, one in FORMATS.items():
        assert one.media_type == media_type
        module, _, function = one.upload.partition(".")
        assert hasattr(import_module(f"service.rows.formats.{module}"), function)
