"""Processes of the data stages, started from a script of a user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from dreamer_study.pipeline.storage.parallel import workers

print("begun", flush=True)
with workers(2) as run:
    print(*run(abs, [(-1,), (-2,)]), __name__, flush=True)
"""


def test_a_script_without_a_guard_is_not_begun_again_in_its_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "begun\n1 2 __main__\n"
