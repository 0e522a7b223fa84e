"""The one import name of the product, and the folders that are imported below it."""

import sys

NAME = "dreamer_study"
FOLDERS = ("flows", "model", "pipeline", "reports", "sql")


def bare_modules() -> list[str]:
    """List the folders that this process has imported without `dreamer_study.` before them.

    Each such name is also a name of other people's packages and files: jupysql has a package `sql`,
    and many a notebook has a `model.py` beside it.
    """
    return [folder for folder in FOLDERS if folder in sys.modules]
