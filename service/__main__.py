"""`svm-service`, and `python -m service`: the command line, as far as what it needs is there."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from service.cli import main as run

        run()
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is not installed: pip install '.[service]' adds it")


if __name__ == "__main__":
    main()
