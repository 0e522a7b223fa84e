"""Whether the C engine's tests run: everywhere but without a C compiler. A library that is missing makes them fail."""

import os
import shlex
import shutil

import pytest

COMPILER = os.environ.get("DREAMER_NATIVE") != "0" and shutil.which(shlex.split(os.environ.get("CC") or "cc")[0])

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")
