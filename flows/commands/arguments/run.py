"""Options of the commands that run a study: `run`, `plan`, `status`, `checkpoints`."""

from __future__ import annotations

from dreamer_study.flows.commands.arguments.shared import (
    add_json,
    add_mirror,
    add_study,
    add_trust,
)
from dreamer_study.flows.commands.help import Commands


def add_run(commands: Commands) -> None:
    """Add the commands that run a study."""
    run = commands.add(
        "run",
        "running.run:run",
        "Run a study to its report.",
        more="What is already done is not done again: after any interruption give the same command"
        " again.",
        examples=[
            ("dreamer run demo", "a first study, in minutes on two CPU cores"),
            ("dreamer run my.yaml --mirror ~/data", "your own study, with data sets at hand"),
        ],
    )
    add_study(run)
    add_mirror(run)
    run.flag(
        "--accept-code-change",
        "continue a training that other code has started; the change is recorded",
    )
    run.choice(
        "--until",
        ("prepare", "train", "evaluate", "report"),
        "end after this stage (default report)",
        default="report",
    )
    run.flag("--plain", "run without Prefect")
    add_trust(run)
    _add_plan(commands)
    status = commands.add(
        "status",
        "running.status:status",
        "Show how far every stage, model and seed of a study is.",
        examples=[
            ("dreamer status demo --watch", "watch until the study has ended"),
            ("dreamer status runs/demo --json", "for scripts"),
        ],
    )
    add_study(status)
    status.flag("--watch", "watch until the study has ended")
    add_json(status)
    _add_checkpoints(commands)


def _add_plan(commands: Commands) -> None:
    plan = commands.add(
        "plan",
        "planning.plan:plan",
        "Show what a study needs: models, FLOPs, tokens, time, disk, money.",
        more="Times are those of runs in the study's store, unless --measure or --tflops says"
        " otherwise.",
        examples=[
            ("dreamer plan demo --measure", "time ten training steps of each model here"),
            (
                "dreamer plan paper-16 --gpus 8 --tflops 198 --price 2.5",
                "eight GPUs of 198 useful TFLOP/s, at 2.5 for a GPU-hour",
            ),
        ],
    )
    add_study(plan)
    add_mirror(plan)
    plan.number("--gpus", "plan for a machine with N GPUs, not for this machine")
    speed = plan.one_of()
    speed.flag(
        "--measure",
        "time ten training steps of each model on this machine, for the time and the price",
    )
    speed.real(
        "--tflops",
        "N",
        "the useful TFLOP/s that a GPU (or a core, without GPUs) sustains, as you have measured",
    )
    plan.real("--price", "P", "the price of an hour of one GPU (or of one core, without GPUs)")
    add_trust(plan)
    add_json(plan)


def _add_checkpoints(commands: Commands) -> None:
    checkpoints = commands.add(
        "checkpoints",
        "running.checkpoints:checkpoints",
        "Print the folders of the models that a study has trained.",
        examples=[
            ("dreamer checkpoints demo --model DR+DA --seed 0", "one model, one seed"),
            ("dreamer checkpoints demo --all", "every checkpoint of every run"),
        ],
    )
    add_study(checkpoints)
    checkpoints.option(
        "--model", metavar="MODEL", help="only this model, such as DR+DA (default: all)"
    )
    checkpoints.number("--seed", "only the runs of this seed (default: all)")
    checkpoints.flag("--all", "list every checkpoint, not only the last of each run")
    add_json(checkpoints)
