"""Starting several processes on this machine that train one run together, as `torchrun` would start them."""

from __future__ import annotations

import socket


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
