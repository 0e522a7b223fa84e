"""Keep the secret without which Prefect servers that we start answer nobody, in a file that only this user can read."""

from __future__ import annotations

import os
import secrets
from functools import cache

from flows.jobs.private import private_folder

USER = "dreamer"


@cache
def secret() -> str:
    """Return the secret of this user's Prefect servers, `dreamer:<random>`; made when it is first asked for."""
    path = private_folder("prefect") / "secret"
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return path.read_text()
    with os.fdopen(number, "w") as file:
        file.write(f"{USER}:{secrets.token_urlsafe(16)}")
    return path.read_text()
