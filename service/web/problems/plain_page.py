"""The frame of pages that do not belong to the dashboard."""

from __future__ import annotations


def plain_page(title: str, main: str) -> str:
    """A whole page. `title` and `main` are HTML."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/style.css">
</head>
<body>
<main class="wide">
{main}</main>
</body>
</html>
"""
