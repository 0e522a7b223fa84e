#!/usr/bin/env bash
# Fill a folder with the wheels that a bare machine lacks, for a GPU machine without a network.
#
#     benchmarks/gpu/carry_packages.sh [FOLDER] [PYTHON] [PLATFORM]
#
# FOLDER (build/carried, which git ignores) travels with the tree; PYTHON (3.12) and PLATFORM
# (manylinux_2_28_x86_64, and older ones) are those of the machine it goes to. Needs the network and
# pip here, and neither there: `fifteen_minutes.sh` unpacks the wheels. Of Prefect only the metadata
# travel: a study that runs with --plain asks for its version and imports nothing of it.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-build/carried}
python_version=${2:-3.12}
platform=${3:-manylinux_2_28_x86_64}
python=${PYTHON:-.venv/bin/python}
rm -rf "$folder"
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pip() { "$python" -m pip --disable-pip-version-check "$@"; }
version_of() { grep -i "^$1==" constraints.txt; }

while read -r name; do
    [[ -z $name || $name == \#* ]] && continue
    wanted=$(version_of "${name}" || true)
    if ! pip download -q --no-deps --only-binary=:all: --implementation cp \
        --python-version "$python_version" --platform "$platform" \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        -d "$folder" "${wanted:-$name}" 2>"$work/said"; then
        # a package without a wheel: made here, which is right for plain Python alone
        pip wheel -q --no-deps -w "$folder" "${wanted:-$name}" || { cat "$work/said"; exit 1; }
    fi
done <benchmarks/gpu/packages.txt
pip download -q --no-deps -d "$work" "$(version_of prefect)"
"$python" - "$work" "$folder" <<'PYTHON'
"""Keep of Prefect's wheel the metadata alone."""
import sys
from pathlib import Path
from zipfile import ZipFile

work, folder = map(Path, sys.argv[1:])
(wheel,) = work.glob("prefect-*.whl")
with ZipFile(wheel) as whole, ZipFile(folder / wheel.name, "w") as kept:
    for name in whole.namelist():
        if name.endswith(".dist-info/METADATA"):
            kept.writestr(name, whole.read(name))
PYTHON
for wheel in "$folder"/*.whl; do
    case $wheel in
    *none-any.whl | *"cp${python_version/./}"*x86_64.whl | *abi3*x86_64.whl) ;;
    *) echo "$wheel is not of Python $python_version on that machine" >&2; exit 1 ;;
    esac
done
echo "$(find "$folder" -name '*.whl' | wc -l) wheels, $(du -sm "$folder" | cut -f1) MB, in $folder"
