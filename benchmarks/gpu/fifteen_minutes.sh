#!/usr/bin/env bash
# Fifteen minutes of one GPU, on a machine without a network: two commands, each within its time.
#
#     benchmarks/gpu/fifteen_minutes.sh first OUT [--rehearse]
#     benchmarks/gpu/fifteen_minutes.sh second OUT [--rehearse]
#     benchmarks/gpu/fifteen_minutes.sh study FILE OUT [--rehearse]
#
# first    expressions at hidden size 256 (docs/results/size-and-problems), 7 minutes at most
# second   while the machine is warm: what a step and its candidates take, then small trainings
#          that share the GPU, with MPS and without, if time is left; 5 minutes at most
# study    as first, for another study file: the other sizes
#
# What is known is copied to OUT each minute, a few files of some MB, so that a machine that is
# taken away costs a minute. Before: `benchmarks/gpu/carry_packages.sh` here, where there is a network;
# its folder build/carried travels with the tree. There: Python 3.12 with torch for CUDA and the
# packages that packages.txt says at its top. --rehearse runs all at toy sizes on a CPU.
#
# From the environment: PYTHON (python3), CARRIED (build/carried), SECONDS_FIRST (410),
# SECONDS_SECOND (320): a machine that is slower to start leaves less.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
python=${PYTHON:-python3}
carried=${CARRIED:-build/carried}
pages=docs/results/size-and-problems
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
started=$SECONDS

say() { echo "[$((SECONDS - started)) s] $*"; }
fail() { echo "$*" >&2; exit 2; }

command=${1:-}
study=$pages/expressions.yaml
case $command in
first | second) shift ;;
study)
    study=${2:-}
    [[ -f $study ]] || fail "there is no study file '$study'; give the path of one"
    shift 2
    ;;
*) fail "the command is '$command', but it must be first, second or study" ;;
esac
out=${1:-}
[[ -n $out ]] || fail "no output folder is given; say where results go: $0 $command OUT"
rehearse=${2:-}
[[ -z $rehearse || $rehearse == --rehearse ]] || fail "'$rehearse' is no option; known is --rehearse"
mkdir -p "$out"
out=$(realpath "$out")

# The wheels are unpacked, which needs no pip; the project is used as it lies here.
prepare() {
    "$python" - "$carried" "$work/site" <<'PYTHON' || fail "the carried packages cannot be used"
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

carried, site = map(Path, sys.argv[1:])
wheels = sorted(carried.glob("*.whl"))
if not wheels:
    sys.exit(f"{carried} has no wheels; benchmarks/gpu/carry_packages.sh fills it")
for wheel in wheels:
    ZipFile(wheel).extractall(site)
own = site / "dreamer_study-0.dist-info"
own.mkdir()
version = Path("src/dreamer_study/__init__.py").read_text().split('__version__ = "')[1].split('"')[0]
(own / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dreamer-study\nVersion: {version}\n")
sys.path[:0] = [str(site), "src", "."]
from dreamer_study.flows.running.result_rows import PACKAGES
from dreamer_study.model.training import provenance

for name in {*PACKAGES, *provenance.PACKAGES}:  # all, before a minute of the GPU is spent
    metadata.version(name)
import datasets, jinja2, lm_eval.api.task, lm_eval.tasks, safetensors, yaml  # noqa
import dreamer_study.flows.commands.cli, dreamer_study.model.evaluate, dreamer_study.model.train  # noqa
PYTHON
    export PYTHONPATH=$work/site:$PWD/src:$PWD PYTHONNOUSERSITE=1 PYTHONUNBUFFERED=1
    export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 HF_HOME=$work/hub
    export TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton
    say "packages are there"
}

# One GPU for many processes: with MPS their kernels run side by side. A daemon of this script's own.
start_mps() {
    [[ -z $rehearse ]] || return 1
    command -v nvidia-cuda-mps-control >/dev/null || { say "no MPS on this machine"; return 1; }
    export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    nvidia-cuda-mps-control -d && say "MPS is on"
}
stop_mps() {
    [[ -n ${CUDA_MPS_PIPE_DIRECTORY:-} ]] && echo quit | nvidia-cuda-mps-control >/dev/null 2>&1
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

# Put a file in its place in OUT; one of more than 15 MB in parts, which `cat` joins again.
place() {
    local part=$1 name=$2
    if (($(stat -c %s "$part") > 15000000)); then
        rm -f "$out/$name"
        split -b 15000000 "$part" "$out/$name." && rm "$part"
    else
        mv "$part" "$out/$name"
    fi
}

# What a study has found so far, by rename: rows, curves, rates and logs, no weights.
copy_rows() {
    local root=$work/$1
    [[ -d $root/store ]] || return 0
    (
        cd "$root" || exit
        find . -path '*/state' -prune -o -path '*/checkpoints' -prune -o -type f \
            \( -path './store/evaluations/*' -o -path './store/runs/*' -o -path './store/models/*' \
            -o -path './store/decisions/*' -o -name '*.yaml' -o -name 'status*' \) -size -4M -print0 |
            tar --null -czf "$work/$1.part" --files-from=- 2>/dev/null
        place "$work/$1.part" "$1.tar.gz"
        [[ -f results.duckdb ]] && gzip -c results.duckdb >"$work/$1.duckdb.part" &&
            place "$work/$1.duckdb.part" "$1.duckdb.gz"
    )
    return 0
}

# What was measured so far: the tables, and all rows and logs in one file.
copy_measured() {
    [[ -d $work/measured ]] || return 0
    tar -czf "$work/measured.part" -C "$work" measured && place "$work/measured.part" measured.tar.gz
    cat "$work"/measured/*/results.md >"$out/results.md" 2>/dev/null
    return 0
}

# Copy what is known each minute, as long as this script runs.
copy_each_minute() {
    while sleep 60; do "$@"; done &
    copier=$!
    trap 'kill $copier 2>/dev/null; rm -rf "$work"' EXIT
}

# Run a study file for at most the given seconds; its trainings save and end when the time is over.
run_study() {
    local name=$1 file=$2 seconds=$3
    if ((seconds < 5)); then
        say "$name: no time is left"
        return 1
    fi
    say "$name: begins, for $seconds s at most"
    timeout --signal=INT --kill-after=25 "$seconds" "$python" -m dreamer_study.flows.commands.cli \
        run "$file" --root "$work/$name" --plain --until evaluate >>"$out/$name.log" 2>&1
    local status=$?
    copy_rows "$name"
    say "$name: ended with status $status"
    return $status
}

# A study of toy size, which a CPU trains in a minute.
small() {
    sed -E -e 's/documents: [0-9]+/documents: 3000/; s/items: [0-9]+/items: 20/' \
        -e 's/validation: [0-9]+/validation: 50/; s/tokens: [0-9_]+/tokens: 16_384/' \
        -e 's/checkpoint_every: [0-9_]+/checkpoint_every: 8_192/; s/depths: .*/depths: [2]/' \
        -e 's/hidden_size: .*/hidden_size: 32/; s/head_size: .*/head_size: 8/' \
        -e 's/(query_heads): .*/\1: 4/; s/(key_value_heads): .*/\1: 2/' \
        -e 's/expert_size: .*/expert_size: 32/; s/routing_size: .*/routing_size: 8/' \
        -e 's/batch_tokens: .*/batch_tokens: 2048/; s/learning_rate: \[.*\], seeds/learning_rate: [1.0e-3, 2.0e-3], seeds/' \
        -e 's/warmup_steps: .*/warmup_steps: 2/; s/, tokens: [0-9_]+\}/, tokens: 8_192}/' "$1"
}

# The study in two halves of its seeds: trainings of all models first, with places for evaluations.
expressions() {
    local seconds=$1 name
    name=$(basename "$study" .yaml)
    mkdir -p "$work/files"
    if [[ -n $rehearse ]]; then small "$study"; else cat "$study"; fi >"$work/files/whole.yaml"
    sed -E 's/^  seeds: \[.*/  seeds: [100, 101, 102, 103]/' "$work/files/whole.yaml" >"$work/files/half.yaml"
    if [[ -n $rehearse ]]; then
        sed -i -E 's/^  seeds: \[.*/  seeds: [100]/' "$work/files/half.yaml"
        sed -i -E 's/^  seeds: \[.*/  seeds: [100, 101]/' "$work/files/whole.yaml"
    fi
    copy_each_minute copy_rows "$name"
    start_mps
    run_study "$name" "$work/files/half.yaml" $((seconds - SECONDS + started))
    run_study "$name" "$work/files/whole.yaml" $((seconds - SECONDS + started))
    stop_mps
}

# Run a part of the benchmark for at most the given seconds; each result is in OUT once it is known.
measure() {
    local name=$1 seconds=$2
    shift 2
    if ((seconds < 20)); then
        say "$name: no time is left"
        return
    fi
    say "$name: begins, for $seconds s at most"
    timeout --kill-after=10 "$((seconds + 10))" "$python" -m benchmarks.gpu --out "$work/measured/$name" \
        --minutes "$("$python" -c "print($seconds / 60)")" --parts "$@" ${rehearse:+--tiny}
    copy_measured
}

# What a step and its candidates take, then small trainings side by side.
throughput() {
    local seconds=$1
    copy_each_minute copy_measured
    measure steps $((seconds - SECONDS + started)) facts candidates
    measure without-mps $((seconds - SECONDS + started)) sharing
    if ((seconds - SECONDS + started >= 20)) && start_mps; then
        measure with-mps $((seconds - SECONDS + started)) sharing
        stop_mps
    fi
}

case $command in
first | study)
    prepare
    expressions "${SECONDS_FIRST:-410}"
    ;;
second)
    prepare
    throughput "${SECONDS_SECOND:-320}"
    ;;
esac
say "done; results are in $out"
