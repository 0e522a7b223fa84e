"""Save a run: its state, then the checkpoint that is due.

`torch.distributed.checkpoint` is not used (docs/decisions.md): the ranks hold equal states, so
nothing is sharded.
"""

from __future__ import annotations

from torch import Tensor

from dreamer_study.model.architectures.code import FOLDER as CODE
from dreamer_study.model.checkpoints.models import TrainingState, save_state, save_weights
from dreamer_study.model.training.branches import checkpoint_folder
from dreamer_study.model.training.config import TrainingRun


def write_state(run: TrainingRun, state: TrainingState) -> None:
    """Write a run's state, then its checkpoint if one is due at this step and not there yet."""
    values = state.values
    # without parents: a run whose folder was moved fails here
    (run.folder / "state").mkdir(exist_ok=True)
    save_state(run.folder / "state", values["step"], state, run.training.keep)
    folder = checkpoint_folder(run, values["tokens"])
    if not values["due"] or folder.exists():
        return
    losses = values["losses"]
    description = {
        "run_id": run.run_id,
        "loss": sum(losses) / len(losses) if losses else None,
        **{name: values[name] for name in ("tokens", "step", "epoch", "seconds", "stream_hash")},
    }
    if run.branch_of:
        description["branched_at"] = run.branched_at
    average = part_of(state, "average.")
    save_weights(
        folder,
        run.model,
        part_of(state, "model."),
        description,
        average,
        keep_raw=run.training.raw_checkpoints or not average,
        code=run.home / CODE,
    )


def part_of(state: TrainingState, prefix: str) -> dict[str, Tensor]:
    """Select the tensors whose names begin with `prefix`, named without the prefix."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.tensors.items()
        if name.startswith(prefix)
    }
