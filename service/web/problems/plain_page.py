"""The frame of pages that do not belong to the dashboard."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TypeAlias

from starlette.requests import Request

Frame: TypeAlias = Callable[[Request, str, str], str]
"""From a title, a text, and the main part, HTML, to a whole page."""


def plain_page(_: Request, title: str, main: str) -> str:
    """Without navigation, for those who may not use it."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} · svm-service</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/style.css">
</head>
<body>
<header class="top"><div class="wide">
<a class="brand" href="/"><img src="/assets/icon.svg" alt="" width="24" height="24">svm-service</a>
</div></header>
<main class="wide">
{main}</main>
</body>
</html>
"""
