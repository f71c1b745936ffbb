"""Exports of model versions for other programs: JSON, NPZ, ONNX."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Literal, TypeAlias

ExportFormat: TypeAlias = Literal["json", "npz", "onnx"]

JSON, NPZ, ONNX = "application/json", "application/x-npz", "application/x-onnx"
MEDIA_TYPES: dict[ExportFormat, str] = {"json": JSON, "npz": NPZ, "onnx": ONNX}

FORM = 2
"""Increase it when exports change: stored files are then rendered again."""


def file_name(form: ExportFormat) -> str:
    """The name under which the file is stored."""
    return f"exports-{FORM}/model.{form}"


@cache
def formats() -> tuple[ExportFormat, ...]:
    """The formats that can be written here: ONNX needs libraries that are optional."""
    return ("onnx", "npz", "json") if find_spec("onnxruntime") else ("npz", "json")
