"""Starting processes that do not outlive who has started them, and several that train one run together, as `torchrun`
would start them."""

from __future__ import annotations

import os
import socket
import sys

# PR_SET_PDEATHSIG (1) survives exec; the parent may have died before it was set, hence the second look.
_LEASH = """
import os, signal, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def rank_environments(count: int) -> list[dict[str, str]]:
    """The environment variables of each of `count` processes (ranks) of one training on this machine.

    They are torchrun's, so that the processes cannot tell who started them; none for a process that trains alone.
    """
    if count == 1:
        return [{}]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # free a moment ago; rank 0 takes it
    shared = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return [{"RANK": str(rank), "LOCAL_RANK": str(rank), **shared} for rank in range(count)]


def leashed(module: str, *arguments: str) -> list[str]:
    """The command for `python -m module arguments`, as a process that gets SIGTERM when this one dies, however."""
    return [sys.executable, "-c", _LEASH, str(os.getpid()), sys.executable, "-m", module, *arguments]
