"""What one training run is: `run.json` read and checked, and what must not change between its start and a resume."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.config import DreamerConfig
from pipeline.errors import InputError

FIELDS = ("run_id", "variant", "depth", "seed", "model", "training", "data")
"""Of run.json."""
HOW_IT_RUNS = (
    "micro_batch_tokens",
    "checkpointing",
    "compile",
    "log_every",
    "save_every_seconds",
    "keep",
    "spike_deviations",
    "spike_steps",
)
"""Fields of TrainingConfig that are no part of what a run is: they change its results by rounding at most."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained; the defaults are the paper's recipe (Table 3). Token counts are of real tokens.

    Raises InputError, naming field, value and rule, for values that make no sense.
    """

    tokens: int  # training stops at the first step at or above
    batch_tokens: int  # per optimiser step, padding included: a multiple of the packed sequence length
    seed: int = 0  # of initialisation and data order
    learning_rate: float = 4e-4
    warmup_steps: int = 500
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 1e-3
    clip: float = 0.5
    loss_on: str = "all"  # or "responses"
    checkpoints: tuple[int, ...] = ()  # token counts; one at `tokens` is always taken
    device: str = "auto"  # "cuda" where there is one, else "cpu"
    precision: str = "auto"  # of the matrix products: "bfloat16" on CUDA, "float32" on a CPU
    micro_batch_tokens: int | None = None  # rows worth this many tokens go through the model at a time; None: all
    compile: bool = False  # torch.compile, on CUDA
    checkpointing: bool = False  # recompute each depth in the backward pass
    log_every: int = 1
    save_every_seconds: float = 300.0
    keep: int = 1  # resume states that stay on the disk; checkpoints all stay
    spike_deviations: float = 20.0  # a loss so far above the running median is a spike (model/safety.py); 0: none is
    spike_steps: int = 50  # spikes in a row that stop the run

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoints", tuple(self.checkpoints))
        beyond = [point for point in self.checkpoints if not 0 <= point <= self.tokens]
        rules = (
            *(
                (name, 1 <= getattr(self, name) < 2**63, "must be at least 1 and below 2^63")
                for name in ("tokens", "batch_tokens", "log_every", "keep")
            ),
            *(
                (name, 0 < getattr(self, name) <= 1e300, "must be above 0, and finite")
                for name in ("learning_rate", "epsilon", "clip")
            ),
            *(
                (name, 0 <= getattr(self, name) < 2**63, "must not be negative, and below 2^63")
                for name in ("seed", "warmup_steps")
            ),
            *(
                (name, 0 <= getattr(self, name) <= 1e300, "must not be negative, and finite")
                for name in ("weight_decay", "save_every_seconds", "spike_deviations")
            ),
            *((name, 0 <= getattr(self, name) < 1, "must be at least 0 and below 1") for name in ("beta1", "beta2")),
            ("spike_steps", 1 <= self.spike_steps <= 50, "must be between 1 and 50"),
            ("checkpoints", not beyond, f"must lie within 0 and tokens ({self.tokens})"),
            ("loss_on", self.loss_on in ("all", "responses"), "must be 'all' or 'responses'"),
            ("device", self.device in ("auto", "cpu", "cuda"), "must be 'auto', 'cpu' or 'cuda'"),
            (
                "precision",
                self.precision in ("auto", "bfloat16", "float32"),
                "must be 'auto', 'bfloat16' or 'float32'",
            ),
            (
                "micro_batch_tokens",
                self.micro_batch_tokens is None
                or (self.micro_batch_tokens >= 1 and self.batch_tokens % self.micro_batch_tokens == 0),
                f"must divide batch_tokens ({self.batch_tokens})",
            ),
        )
        for name, holds, rule in rules:
            if not holds:
                raise InputError(f"training configuration: {name} is {getattr(self, name)!r}, but it {rule}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values by field name, for JSON."""
        return {**dataclasses.asdict(self), "checkpoints": list(self.checkpoints)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """The inverse of `to_dict`; missing fields take their defaults, unknown or mistyped ones raise InputError."""
        known = {field.name: field for field in dataclasses.fields(cls)}
        for name, value in values.items():
            if name not in known:
                nearest = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"
                raise InputError(f"training configuration: there is no field {name!r}; {hint}")
            kind, accepts = _KINDS[known[name].type]
            if not accepts(value):
                raise InputError(f"training configuration: {name} is {value!r}, but it must be {kind}")
        for name in ("tokens", "batch_tokens"):
            if name not in values:
                raise InputError(f"training configuration: {name} is missing")
        return cls(**values)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS = {
    "int": ("a whole number", _whole),
    "int | None": (
        "a whole number of at least 1, or null",
        lambda value: value is None or (_whole(value) and value > 0),
    ),
    "float": ("a number", lambda value: _whole(value) or isinstance(value, float)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "str": ("text", lambda value: isinstance(value, str)),
    "tuple[int, ...]": (
        "a list of whole numbers",
        lambda value: isinstance(value, list | tuple) and all(map(_whole, value)),
    ),
}


@dataclass(frozen=True)
class Run:
    """One training run: a folder with `run.json`, which names the packed data."""

    folder: Path
    run_id: str
    variant: str
    model: DreamerConfig
    training: TrainingConfig
    data: Path

    def settings(self) -> dict[str, Any]:
        """Everything in run.json that decides the result; where the data lie and how it runs do not."""
        own = {"run_id": self.run_id, "variant": self.variant}
        training = {name: value for name, value in self.training.to_dict().items() if name not in HOW_IT_RUNS}
        return {**own, "model": self.model.to_dict(), "training": training}


def read_run(folder: Path | str) -> Run:
    """The run described by `folder/run.json`. Raises InputError if the file is missing, damaged or wrong."""
    folder = Path(folder)
    path = folder / "run.json"
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"no run in {folder}: run.json is missing") from error
    except (ValueError, RecursionError) as error:  # neither JSON nor text; nested without end
        raise InputError(f"{path} is no valid JSON ({error})") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} holds {_short(values)}, but it must be an object")
    for name in values:
        if name not in FIELDS:
            nearest = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(FIELDS)}"
            raise InputError(f"{path}: there is no field {name!r}; {hint}")
    for name, kind in (("run_id", str), ("model", dict), ("training", dict), ("data", str)):
        if not isinstance(values.get(name), kind):
            raise InputError(f"{path}: {name} is {_short(values.get(name))}, but it must be {_JSON_NAMES[kind]}")
    if not is_name(values["run_id"]):
        raise InputError(f"{path}: run_id is {values['run_id']!r}, but it must be a name that a folder can have")
    if not isinstance(values.get("variant", ""), str):
        raise InputError(f"{path}: variant is {_short(values['variant'])}, but it must be text")
    training = dict(values["training"])
    seed = values.get("seed", training.get("seed", 0))
    if training.setdefault("seed", seed) != seed:
        raise InputError(f"{path}: seed is {seed}, but training.seed is {training['seed']}; make them equal")
    return Run(
        folder=folder,
        run_id=values["run_id"],
        variant=values.get("variant", ""),
        model=DreamerConfig.from_dict(values["model"]),
        training=TrainingConfig.from_dict(training),
        data=folder / values["data"],
    )


_JSON_NAMES = {str: "text", dict: "an object"}


def is_name(text: Any) -> bool:
    """Whether a file or folder can have this text as its name."""
    return isinstance(text, str) and text not in ("", ".", "..") and text.isprintable() and "/" not in text


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def code_version(module: str = "model.train") -> dict[str, str]:
    """Digests of the source files that training runs: `module` and all of `model/` it imports; and torch's version."""
    import torch  # here, as whoever only reads a run need not wait for it

    root = Path(__file__).parents[2]
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        source = (root / name.replace(".", "/")).with_suffix(".py")
        key = str(source.relative_to(root))
        if key not in found and source.is_file():
            content = source.read_bytes()
            found[key] = hashlib.blake2b(content, digest_size=8).hexdigest()
            waiting += [imported for imported in _imports(content) if imported.startswith("model.")]
            compiled = source.with_suffix(".c")
            if compiled.is_file():
                found[str(compiled.relative_to(root))] = hashlib.blake2b(
                    compiled.read_bytes(), digest_size=8
                ).hexdigest()
    return {**dict(sorted(found.items())), "torch": torch.__version__}


def _imports(source: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What changed between two nested records, one phrase per leaf; digests are named, not printed."""
    found = []
    for name in sorted({*before, *now}):
        old, new, path = before.get(name), now.get(name), prefix + name
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, "" if name == "code" else f"{path}.")
        elif old != new:
            digests = path == "data" or path.endswith((".py", ".c"))
            found.append(f"{path} changed" if digests else f"{path} was {old!r} and is {new!r}")
    return found
