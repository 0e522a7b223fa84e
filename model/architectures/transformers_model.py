"""Build a causal language model of the transformers library, with random weights.

Its sizes are those of the library's own configuration class.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from dreamer_study.pipeline.errors import InputError, nearest

try:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
except ImportError as error:
    raise InputError(
        "transformers is not installed; run pip install 'dreamer-study[transformers]'"
    ) from error

DROPOUTS = ("dropout", "pdrop", "dropout_prob", "dropout_rate")
OF_OTHER_HEADS = ("classifier", "summary")  # than that of a language model
# Tokens with a meaning, which a study names for every model, whether its type knows them or not.
MARKS = ("bos_token_id", "eos_token_id", "pad_token_id")
# Ends of names of weights that are rates of decay, one for each channel and state.
RATES_OF_DECAY = ("A_log",)
# Model types whose gates and inputs alternate in one matrix.
INTERLEAVED = ("gpt_oss",)
ASKED_FOR = re.compile(r"""getattr\((?:self\.)?config, ["'](\w+)["']""")


def _equal(parameter: nn.Parameter, number: int, axis: int) -> dict[str, Any]:
    """Split a weight into a number of equal matrices along an axis."""
    size = parameter.shape[axis] // number
    return {"parts": [size] * number, "axis": axis}


def unknown_fields(kind: str, values: Mapping[str, Any]) -> list[str]:
    """Say of each field that the configuration of a type does not have so, and what is near."""
    fields = _fields(kind)
    return [
        f"{kind} has no field {name}{nearest(name, fields)}"
        for name in values
        if name not in fields and name not in MARKS
    ]


def configuration(
    kind: str, vocabulary_size: int, sequence_length: int, values: Mapping[str, Any]
) -> Any:
    """Make the configuration of a model of a type; values of wrong kinds are refused by it."""
    fields = _fields(kind)
    aliases = CONFIG_MAPPING[kind].attribute_map
    longest = aliases.get("max_position_embeddings", "max_position_embeddings")
    length = {longest: sequence_length} if longest in fields else {}
    # No token is padding: that of another vocabulary would never be learned here.
    given = {"vocab_size": vocabulary_size, "pad_token_id": None, **length}
    given |= {name: value for name, value in values.items() if name in fields}
    return AutoConfig.for_model(kind, **given)


def _fields(kind: str) -> set[str]:
    """Name the fields of the configuration of a type, by all names that they have."""
    configured = {*CONFIG_MAPPING[kind]().to_dict(), *CONFIG_MAPPING[kind].attribute_map}
    return configured | _asked_for(kind)


def _asked_for(kind: str) -> set[str]:
    """Name the fields that a model type's code asks for, where its configuration need not have
    them.

    Such as `head_dim` of qwen3_moe: `getattr(config, "head_dim", ...)`.
    """
    models = MODEL_FOR_CAUSAL_LM_MAPPING
    configuration = CONFIG_MAPPING[kind]
    if configuration not in models:
        return set()
    code = import_module(models[configuration].__module__)
    return set(ASKED_FOR.findall(inspect.getsource(code)))


class TransformersModel(nn.Module):
    """A model that has `forward` alone.

    Packed documents are read one by one; generation reads all tokens anew.
    """

    def __init__(
        self, kind: str, vocabulary_size: int, sequence_length: int, **values: Any
    ) -> None:
        """Raises InputError for a field that the configuration of this type does not have."""
        super().__init__()
        unknown = unknown_fields(kind, values)
        if unknown:
            raise InputError(unknown[0])
        config = configuration(kind, vocabulary_size, sequence_length, values)
        self.model = AutoModelForCausalLM.from_config(config)

    @classmethod
    def of_type(cls, kind: str) -> Any:
        """Return what builds models of a type.

        Raises InputError for a type that the library does not know.
        """
        if kind not in CONFIG_MAPPING:
            raise InputError(
                f"transformers has no model type {kind}{nearest(kind, CONFIG_MAPPING)}"
            )
        return functools.partial(cls, kind)

    @property
    def dropouts(self) -> list[str]:
        """The shares of dropout in the configuration that are above 0, by their names."""
        values = self.model.config.to_dict()
        return [
            f"{name} {value:g}"
            for name, value in values.items()
            if name.endswith(DROPOUTS) and not name.startswith(OF_OTHER_HEADS) and value
        ]

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Say how weights are trained: vectors without decay, and what Muon must know of them.

        That is which of them hold several matrices side by side, and which are no matrix.
        """
        named = dict(self.model.named_parameters())
        groups: list[dict[str, Any]] = []
        for name, parameter in named.items():
            if parameter.ndim < 2:
                groups.append({"params": parameter, "weight_decay": 0.0})
            elif name.endswith(RATES_OF_DECAY):
                groups.append({"params": parameter, "optimizer": "adamw"})
            else:
                groups.append({"params": parameter, **self._fused(name, named)})
        return groups

    def _fused(self, name: str, named: dict[str, nn.Parameter]) -> dict[str, Any]:
        """Return the sizes of the matrices that are fused in a weight; nothing for one alone."""
        config = self.model.config
        parameter = named[name]
        kind = name.removesuffix(".weight").rpartition(".")[2]
        if kind == "c_attn":  # of GPT-2, whose weights are [in, out]
            return _equal(parameter, 3, -1)
        if kind == "qkv_proj":
            head_size = getattr(config, "head_dim", None)
            head_size = head_size or config.hidden_size // config.num_attention_heads
            of_keys = config.num_key_value_heads * head_size
            parts = [config.num_attention_heads * head_size, of_keys, of_keys]
            return {"parts": parts} if sum(parts) == parameter.shape[-2] else {}
        if kind == "gate_up_proj" and config.model_type not in INTERLEAVED:
            down = named.get(name.replace("gate_up_proj", "down_proj"))
            if parameter.ndim == 3 and down is not None:
                rows_are_outputs = parameter.shape[-2] == 2 * down.shape[-1]
                return _equal(parameter, 2, -2 if rows_are_outputs else -1)
            return _equal(parameter, 2, -2)
        return {}

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits [B, S, V]."""
        return self.model(input_ids=tokens, use_cache=False).logits
