"""Builds the site of the documentation, which a service shows at `/guide`: `make site`.

The pages are `docs/*.md`, the changelog, and one page for each package of `svm` and of the
Python client, made of their docstrings without importing them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from service.web.frame import bar, frame_files

ROOT = Path(__file__).parents[1]
SITE = ROOT / "service" / "web" / "site"
OWN_FILES = Path(__file__).parent / "site"
NAVIGATION: dict[str, list[str]] = {
    "Start": ["quickstart.md", "tutorial.md", "tickets.md"],
    "Prepare your data": ["preparing-data.md"],
    "Choose a solver, C and kernel": [
        "choosing.md",
        "class-imbalance.md",
        "solvers.md",
        "evaluations-and-comparisons.md",
        "courses.md",
    ],
    "Read the result": ["reading-results.md", "leaks.md", "models.md"],
    "Serve it": ["guide.md", "client.md", "command-line.md", "speed.md", "problems.md"],
    "Operate it": ["operations.md", "deployment.md", "scaling.md", "security.md", "CHANGELOG.md"],
}
"""In the order in which a person asks; the titles are those of the pages."""
LAST = ["faq.md", "glossary.md"]
DOCUMENTED = ("svm", "service/client/synchronous")
"""The reference has a page for each package in these folders."""
WORDS = {
    "choosing/": "Hyperparameters",
    "choosing/#what-c-does": "Overfitting, regularization",
    "choosing/#what-the-kernel-and-do": "Kernel, gamma",
    "class-imbalance/": "Class imbalance, imbalanced, unbalanced",
    "client/#errors": "Retry",
    "evaluations-and-comparisons/#comparisons": "Grid search",
    "evaluations-and-comparisons/#evaluations": "Feature importance",
    "evaluations-and-comparisons/#validation-sets": "Cross validation, early stopping",
    "faq/#training": "GPU",
    "guide/#many-trainings": "Batch",
    "guide/#predict": "Predict, probability",
    "guide/#upload-data": "Upload",
    "models/#exports": "ONNX",
    "operations/#settings": "Port",
    "preparing-data/#groups-and-times-of-rows": "Group",
    "preparing-data/#kinds-and-roles": "Categorical, label, target",
    "preparing-data/#texts": "Text",
    "preparing-data/#what-a-training-makes-of-the-columns": "Missing values, NaN",
    "preparing-data/#what-is-not-done": "Outliers",
    "preparing-data/#what-is-read": "File, CSV, Excel, sparse",
    "quickstart/#predict-a-number": "Regression",
    "reading-results/#is-the-model-any-good": "Accuracy, R²",
    "reading-results/#where-is-it-wrong": "Confusion matrix",
    "reading-results/#would-more-training-help": "Certificate",
    "reading-results/#what-a-prediction-depends-on": "Explain, SHAP",
    "scaling/": "Docker, several machines",
    "security/#authentication-and-scopes": "API keys, login",
    "security/#limits-timeouts-and-rate-limits": "Timeout",
    "solvers/#data-larger-than-memory": "Memory",
}
"""The sections that answer what people type into a search, as in the index of a book."""
LISTS = ("decisions/", "CHANGELOG/", "reference/")
PUBLIC = ("reference/svm/", "reference/service.client.synchronous/")
"""Whose classes the search finds."""
INTERNAL = {
    *("svm.loops", "svm.training.candidates", "svm.training.curve"),
    *("svm.training.default_epsilon", "svm.training.round_robin"),
}
"""Packages and modules whose functions are only for other modules of `svm`."""


def build(site: Path) -> str:
    """Write the site to a folder, in place of what is there. Returns what the builder says.

    Raises RuntimeError with its warnings if there are any.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        pages = work / "docs"
        shutil.copytree(ROOT / "docs", pages)
        for page in pages.rglob("*.md"):
            page.write_text(_within(page.read_text()))
        (pages / "CHANGELOG.md").write_text((ROOT / "CHANGELOG.md").read_text())
        for file in OWN_FILES.iterdir():
            shutil.copy(file, pages)
        reference = _reference(pages)
        (work / "mkdocs.yml").write_text(json.dumps(_settings(pages, reference)))  # JSON is YAML
        command = [sys.executable, "-m", "zensical", "build"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        if done.returncode or "Warning" in said:
            raise RuntimeError(said)
        for page in (work / "site").rglob("*.html"):
            page.write_text(_framed(_accessible(page.read_text())))
        _index(work / "site" / "search.json")
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(work / "site", site)
    return said


def _settings(pages: Path, reference: list[str]) -> dict[str, Any]:
    decisions = sorted((pages / "decisions").glob("0*.md"))
    navigation: list[Any] = [
        {"Documentation": "README.md"},
        *({title: names} for title, names in NAVIGATION.items()),
        "notebooks.md",
        {"API reference": reference},
        {
            "How it works": [
                "decisions/README.md",
                *(f"decisions/{page.name}" for page in decisions),
            ]
        },
        *LAST,
    ]
    options = {
        "show_source": False,
        "show_root_heading": True,
        "show_root_full_path": True,
        "heading_level": 2,
        "filters": "public",
        "show_symbol_type_heading": True,
        "members_order": "source",
        "docstring_style": "numpy",
        "separate_signature": True,
        "show_signature_annotations": True,
    }
    return {
        "site_name": "svm-service",
        "site_description": "Train, certify, keep and serve support vector machines",
        "nav": navigation,
        "theme": {
            "font": False,  # nothing comes from another host
            "features": ["navigation.prune"],
        },
        "extra_css": ["site.css"],
        "extra_javascript": ["site.js"],
        "plugins": {
            "search": {},
            "mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT)], "options": options}}},
        },
    }


def _index(file: Path) -> None:
    """Let the search find the `WORDS`, and of decisions, changes and the reference only the pages
    that list them, and public classes: their many names would come before the pages.

    Raises RuntimeError if a word leads nowhere."""
    index = json.loads(file.read_text())
    kept = {}
    for item in index["items"]:
        place, name = item["location"], item["location"].rpartition(".")[2]
        is_class = place.startswith(PUBLIC) and name[:1].isupper() and not name.isupper()
        if is_class or not place.startswith(("#", *LISTS)) or place in LISTS:
            kept[place] = {**item, "text": ""} if is_class else item
    for place, words in WORDS.items():
        if place not in kept:
            raise RuntimeError(f"{place} is not on the site")
        kept[place]["answers"] = words.split(", ")
    file.write_text(json.dumps({**index, "items": list(kept.values())}))


def _within(text: str) -> str:
    """A page whose links to files beside `docs` stay within the site, or are plain text."""
    text = text.replace("](../CHANGELOG.md", "](CHANGELOG.md")
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?!docs)[^)]*\)", r"\1", text)


def _accessible(html: str) -> str:
    """A page without a link for each line of code, which have no text, and without a landmark
    for each level of its table of contents, whose names repeat."""
    html = re.sub(r'<a id="__codelineno-[^>]*></a>', "", html)
    return re.sub(
        r'<nav class="md-nav" aria-label="[^"]*">', '<nav class="md-nav" role="none">', html
    )


def _framed(html: str) -> str:
    """A page with the bar of all pages, and without the builder's scripts, two thirds of its bytes:
    `/search` searches, and all else works without.

    Raises RuntimeError if the builder has changed its pages.
    """
    html = re.sub(r'<script(?! src="[^"]*site\.js").*?</script>', "", html, flags=re.DOTALL)
    for part, by in (
        (r'<link rel="icon"[^>]*>', frame_files()),
        (r'<div data-md-component="skip">.*?</div>', ""),
        (r'<header (?=class="md-header)', f"{bar('guide/', main='__skip')}\n<header role=none "),
        (r'<a [^>]*class="md-header__button md-logo".*?</a>', ""),
        (r"(?<=<span class=\"md-ellipsis\">)\s*svm-service", "Documentation"),
        (r'<label class="md-header__button md-icon" for="__search">.*?</label>', ""),
        (r'<div class="md-search".*?</div>', ""),
    ):
        place = re.search(part, html, re.DOTALL)
        if place is None:
            raise RuntimeError(f"a page has no {part}")
        html = html[: place.start()] + by + html[place.end() :]
    return html


def _reference(pages: Path) -> list[str]:
    """Write a page for each package, with its modules; returns their names."""
    folder = pages / "reference"
    folder.mkdir()
    names = []
    for top in DOCUMENTED:
        for package in sorted(path.parent for path in (ROOT / top).rglob("__init__.py")):
            title = _dotted(package / "__init__.py")
            if title in INTERNAL:
                continue
            modules = [_dotted(module) for module in sorted(package.glob("*.py"))]
            shown = (module for module in modules if module not in {title, *INTERNAL})
            directives = "\n\n".join(f"::: {module}" for module in shown)
            (folder / f"{title}.md").write_text(f"# `{title}`\n\n{directives}\n")
            names.append(f"reference/{title}.md")
    return names


def _dotted(module: Path) -> str:
    path = module.relative_to(ROOT).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


if __name__ == "__main__":
    print(build(SITE))
