"""Say how weights are updated and how the rate runs: kinds of numbers, optimizers, schedules.

In a study file, for all variants or for one:

    training:
      optimizer: muon                                    # or adamw, or my_optimizers.py:Lion
      schedule: {decay: 0.2, to: 0.1, shape: linear}     # or constant, linear, cosine
      betas: [0.9, 0.95]
      clip: null
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dreamer_study.pipeline.errors import nearest
from dreamer_study.pipeline.settings import checked, unknown_key

ADAMW = "adamw"
MUON = "muon"
OWN_CLASS = re.compile(r"[^:]+\.py:[A-Za-z_]\w*")
WHOLE_DECAYS = ("constant", "linear", "cosine")
SHAPES = ("linear", "cosine", "sqrt")
FIRST_AND_SECOND = ("beta1", "beta2")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]


def _optimizer(name: Any) -> Any:
    """Return the name of an optimizer; raises ValueError for one that there is not."""
    is_known = isinstance(name, str) and (name in (ADAMW, MUON) or OWN_CLASS.fullmatch(name))
    if not is_known:
        near = nearest(name, (ADAMW, MUON))
        raise ValueError(f"it must be {ADAMW}, {MUON}, or a class <file>.py:<class>{near}")
    return name


Optimizer = Annotated[
    str,
    BeforeValidator(_optimizer),
    Field(
        description="adamw, muon (with AdamW for embeddings, head, norms and biases), or your own"
        " class: <file>.py:<class>."
    ),
]


@checked("schedule")
class RateDecay:
    """A rate that stays at its peak after the warm-up, and falls at the end (WSD)."""

    decay: Annotated[Share, Field(description="Share of `tokens`, at the end, in which it falls.")]
    to: Annotated[
        float, Field(ge=0, lt=1, description="Share of the peak that the rate falls to.")
    ] = 0.0
    shape: Annotated[
        Literal["linear", "cosine", "sqrt"],
        Field(description="Shape of the fall; sqrt: 1 - the square root of its finished share."),
    ] = "linear"


def _schedule(value: Any) -> Any:
    """Return a schedule; raises ValueError with what is wrong of a mapping, in one line."""
    if isinstance(value, RateDecay):
        return value
    if isinstance(value, Mapping):
        return RateDecay(**_whole_numbers_too(value))
    if value not in WHOLE_DECAYS:
        near = nearest(value, WHOLE_DECAYS)
        raise ValueError(
            f"it must be {', '.join(WHOLE_DECAYS)}, or {{decay: 0.2, to: 0.1, shape: linear}}{near}"
        )
    return value


def _whole_numbers_too(values: Mapping[str, Any]) -> dict[str, Any]:
    """Take 1 for 1.0, and name a key that no decay has."""
    known = RateDecay.__dataclass_fields__
    for key in values:
        if key not in known:
            raise ValueError(unknown_key(key, known))
    return {key: float(value) if type(value) is int else value for key, value in values.items()}


Schedule = Annotated[
    str | RateDecay,
    BeforeValidator(
        _schedule, json_schema_input_type=Literal["constant", "linear", "cosine"] | RateDecay
    ),
    Field(
        description="Learning rate after the warm-up: constant, a linear or cosine fall to 0 at"
        " `tokens`, or a fall at the end."
    ),
]


def spelled_out(training: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with `betas` as two numbers, and a decay with all that it implies.

    Example: {"betas": [0.9, 0.95]} is {"beta1": 0.9, "beta2": 0.95}. Raises ValueError for what is
    no pair, and for a beta that is given twice.
    """
    values = dict(training)
    if "betas" in values:
        betas = values.pop("betas")
        if not isinstance(betas, list | tuple) or len(betas) != 2:
            raise ValueError(f"betas is {betas!r}, but it must be two numbers, as [0.9, 0.95]")
        for name, beta in zip(FIRST_AND_SECOND, betas, strict=True):
            if name in values:
                raise ValueError(f"betas and {name} set the same thing; give one of them")
            values[name] = beta
    schedule = values.get("schedule")
    if isinstance(schedule, Mapping):
        made = _schedule(schedule)
        values["schedule"] = {"decay": made.decay, "to": made.to, "shape": made.shape}
    return values


def branch_tokens(share: float, tokens: int) -> int:
    """Return the tokens of a branch from a checkpoint, without those of its run before."""
    return round(share * tokens)


def decay_share(schedule: Any) -> float:
    """Return the share of a run's tokens in which its rate falls; a plain or a checked schedule."""
    if isinstance(schedule, RateDecay):
        return schedule.decay
    if isinstance(schedule, Mapping):
        return float(schedule["decay"])
    return 0.0 if schedule == "constant" else 1.0
