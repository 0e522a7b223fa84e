"""Start the ranks of one run on this machine.

`python -m dreamer_study.model.training.start_ranks 2 dreamer_study.model.train <folder> ...`

torchrun's agent does the work: meeting of the ranks, their ends, signals. Beyond `torchrun
--standalone` this command says nothing itself, ends with the status of the rank that failed first,
and takes its ranks along when it is killed. Over several machines start torchrun itself
(docs/scale.md).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress
from tempfile import TemporaryDirectory
from uuid import uuid4

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from dreamer_study.model.processes import bound_command


def main() -> int:
    """Run the command by `count` ranks, and return the exit status."""
    count, module, *arguments = sys.argv[1:]
    # ranks say themselves why they fail, and their word is to be the log's last
    logging.disable(logging.ERROR)
    python, *rest = bound_command(module, *arguments, ends_by=signal.SIGKILL)
    try:
        # The ranks meet in a file of this user alone: torch would have them meet at a port of all
        # networks, where it takes pickles from whoever comes.
        with TemporaryDirectory(prefix="dreamer-ranks-") as folder:
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=int(count),
                run_id=uuid4().hex,
                rdzv_backend="c10d",
                rdzv_endpoint=f"{folder}/store",
                rdzv_configs={"store_type": "file"},
                local_addr="127.0.0.1",
                max_restarts=0,
                logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
            )
            elastic_launch(config, python)(*rest)
    except ChildFailedError as error:
        return error.get_first_failure()[1].exitcode
    except SignalException as error:
        return 128 + error.sigval
    return 0


if __name__ == "__main__":
    status = main()
    if status < 0:  # end by the signal by which the rank has ended
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
