"""A version in forms that other programs read: JSON, NPZ, ONNX."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Literal, TypeAlias

ExportFormat: TypeAlias = Literal["json", "npz", "onnx"]

JSON, NPZ, ONNX = "application/json", "application/x-npz", "application/x-onnx"
MEDIA_TYPES: dict[ExportFormat, str] = {"json": JSON, "npz": NPZ, "onnx": ONNX}

FORM = 1
"""Grows when files are written in another way: those that are kept are then written again."""


def file_name(form: ExportFormat) -> str:
    """Under which the file is kept."""
    return f"exports-{FORM}/model.{form}"


@cache
def formats() -> tuple[ExportFormat, ...]:
    """Those that can be written here: ONNX takes libraries that need not be installed."""
    return ("onnx", "npz", "json") if find_spec("onnxruntime") else ("npz", "json")
