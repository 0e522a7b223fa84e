"""Keep the secret without which Prefect servers that we start answer nobody, in a file that only this user can read."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from functools import cache
from tempfile import NamedTemporaryFile

from flows.jobs.private import private_folder

USER = "dreamer"


@cache
def secret() -> str:
    """Return the secret of this user's Prefect servers, `dreamer:<random>`; made when it is first asked for."""
    path = private_folder("prefect") / "secret"
    if not path.exists():
        with NamedTemporaryFile("w", dir=path.parent) as file:  # which this user alone can read
            file.write(f"{USER}:{secrets.token_urlsafe(16)}")
            file.flush()
            with suppress(FileExistsError):  # another process was first
                os.link(file.name, path)
    return path.read_text()
