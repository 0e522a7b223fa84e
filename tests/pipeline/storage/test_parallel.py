"""Processes of the data stages, and the workers of a Dask scheduler of this machine."""

from __future__ import annotations

import operator
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.security import Security

from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.storage import parallel
from dreamer_study.pipeline.storage.parallel import local_scheduler, workers

pytestmark = pytest.mark.slow

SCRIPT = """
from dreamer_study.pipeline.storage.parallel import workers

print("begun", flush=True)
with workers(2) as run:
    print(*run(abs, [(-1,), (-2,)]), __name__, flush=True)
"""


def test_a_local_scheduler_works_for_this_process_and_for_nobody_without_its_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with local_scheduler(1) as address:
        assert address.startswith("tls://127.0.0.1:")
        with workers(2, address) as run:
            assert list(run(operator.add, [(1, 2), (3, 4)])) == [3, 7]
        monkeypatch.setattr(parallel, "CONNECT_SECONDS", 2)
        for stranger, keys in (
            (address.replace("tls", "tcp"), None),  # without encryption
            (address, None),
            (address, Security.temporary()),  # other keys
        ):
            monkeypatch.setattr(parallel, "_keys", {address: keys})
            with pytest.raises(InputError, match="no Dask"), workers(2, stranger):
                pass


def test_a_script_without_a_guard_is_not_begun_again_in_its_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "begun\n1 2 __main__\n"
