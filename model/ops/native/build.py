"""Compile the C sources below this folder, at the first use.

There is one shared library for each real type. A wheel holds the sources alone and runs anywhere;
what is compiled for this processor lies in the user's own cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import stat
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "source"
REALS = ("float", "double")
# Sums may be reordered to fill vector registers; NaN and infinity stay, so that training sees them.
FLAGS = (
    *("-std=gnu11", "-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"),
    *("-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
# Not every compiler knows this processor. One that does leaves half of the widest registers empty
# unless told.
PROCESSOR_FLAGS = (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ())


def library_path(real: str) -> Path:
    """Return the path of the library for the real type "float" or "double", in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return cache / "dreamer-study" / library_name(real)


def library_name(real: str) -> str:
    """Name the library: there is one for each state of the sources and each kind of processor."""
    made_for = " ".join([source_digest(), platform.machine(), *sorted(processor_features())])
    digest = hashlib.blake2b(made_for.encode(), digest_size=8).hexdigest()
    return f"native_{real}-{digest}.so"


def find_place(real: str) -> Path:
    """Return where the library is, or may be compiled: in the cache, else in the temporary folder.

    Results must not depend on whether a home can be written: torch's operations differ from the
    library's by rounding. Raises OSError where neither folder is of this user alone.
    """
    cached = library_path(real)
    try:
        _check_own(cached.parent)
        if cached.exists() or os.access(cached.parent, os.W_OK):
            return cached
        problem = OSError(f"{cached.parent} cannot be written")
    except OSError as error:
        problem = error
    temporary = Path(tempfile.gettempdir()) / f"dreamer-{os.getuid()}"
    try:
        _check_own(temporary)
        _check_own(temporary / "engine")
    except OSError:
        raise problem from None
    return temporary / "engine" / library_name(real)


def _check_own(folder: Path) -> None:
    """Make a folder, unless it is there. Raises OSError where others can put a library there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.lstat()
    is_own = stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()
    if not is_own or state.st_mode & 0o022:
        raise OSError(
            f"other users can write to {folder}; run chmod go-w on it, or set XDG_CACHE_HOME to"
            " your own folder"
        )


def source_digest() -> str:
    """Hash the C sources and this file, which holds the compiler's flags."""
    sources = [Path(__file__), *sorted(SOURCE.glob("*.[ch]"))]
    content = b"".join(source.read_bytes() for source in sources)
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def processor_features() -> set[str]:
    """Name the instruction sets of this processor, such as avx2, as Linux lists them.

    None on other systems.
    """
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    features = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    names = features[1].split() if features else ()
    return {
        name
        for name in names
        if re.match(r"s*sse|avx|fma|bmi|abm|f16c|xop|tbm|movbe|popcnt|v?aes|gfni|amx", name)
    }


def compile_library(real: str, path: Path) -> None:
    """Compile the library for `real` to `path`, by the compiler that CC names, else cc.

    Raises OSError where there is no compiler, compiling fails, or the folder cannot be written.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    command = [*compiler, *FLAGS, f"-DREAL={real}", str(SOURCE / "native.c"), "-lm"]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        compiled = Path(folder) / path.name
        for flags in PROCESSOR_FLAGS:
            result = subprocess.run(
                [*command, *flags, "-o", str(compiled)], stderr=subprocess.PIPE, text=True
            )
            if result.returncode == 0:
                compiled.replace(path)  # at once: another process may be loading the library
                return
    reason = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
    raise OSError(f"{shlex.join(compiler)} cannot compile native.c: {reason[0]}")
