"""Stand-ins for the commands of SLURM, and the program that their jobs run."""

# A job is a process group; the queue is a folder with a file for each job, named by its number, that holds the group.
COMMANDS = {
    "sbatch": """#!/bin/bash
echo "$@" >> "$QUEUE/../submitted"
while [[ $1 == --* ]]; do
  case $1 in
    --parsable) shift;;
    --output) log=$2; shift 2;;
    --chdir) cd "$2"; shift 2;;
    --job-name) name=$2; shift 2;;
    *) shift 2;;
  esac
done
[[ -e $QUEUE/../refuses ]] && { echo "sbatch: error: invalid account" >&2; exit 1; }
number=$(( $(ls "$QUEUE" | wc -l) + 1 ))
export SLURM_JOB_ID=$number SLURM_NODEID=0 SLURM_JOB_NODELIST=localhost
setsid bash -c 'echo $$ > "$QUEUE/$SLURM_JOB_ID"; exec bash "$@"' job "$@" >> "$log" 2>&1 < /dev/null &
while [[ ! -s $QUEUE/$number ]]; do sleep 0.05; done
echo $number > "$QUEUE/../$name.number"
[[ -e $QUEUE/../kills ]] && rm "$QUEUE/../kills" && kill -KILL $PPID
echo $number
""",
    "squeue": """#!/bin/bash
if [[ $* == *"--name "* ]]; then
  number=$(cat "$QUEUE/../${@: -1}.number" 2>/dev/null) || exit 0
  kill -0 -- -$(cat "$QUEUE/$number") 2>/dev/null && echo $number
  exit 0
fi
[[ -e $QUEUE/../deaf ]] && { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
[[ -e $QUEUE/../pending ]] && echo PENDING && exit
kill -0 -- -$(cat "$QUEUE/${@: -1}") 2>/dev/null && echo RUNNING && exit
echo "slurm_load_jobs error: Invalid job id specified" >&2
exit 1
""",
    "scancel": """#!/bin/bash
[[ $1 == --signal=KILL ]] && kind=KILL || kind=TERM
kill -$kind -- -$(cat "$QUEUE/${@: -1}") 2>/dev/null
""",
    "srun": """#!/bin/bash
trap : TERM
"$@"
""",
}
HELPER = """
import os, pathlib, sys, time
what, mark = sys.argv[1], pathlib.Path(sys.argv[2])
print("begins", flush=True)
if what == "sleep":
    mark.write_text("up")
    time.sleep(60)
if what == "compiles":
    mark.write_text(os.environ["TORCHINDUCTOR_CACHE_DIR"])
sys.exit({"fail": 1, "bad": 2}.get(what, 0))
"""
