"""Build a causal language model of the transformers library, with random weights.

Its sizes are those of the library's own configuration class.
"""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor, nn

from dreamer_study.pipeline.errors import InputError, nearest

try:
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
except ImportError as error:
    raise InputError(
        "transformers is not installed; pip install 'dreamer-study[transformers]'"
    ) from error

DROPOUTS = ("dropout", "pdrop", "dropout_prob", "dropout_rate")
OF_OTHER_HEADS = ("classifier", "summary")  # than that of a language model


class TransformersModel(nn.Module):
    """A model that has `forward` alone.

    Packed documents are read one by one; generation reads all tokens anew.
    """

    def __init__(
        self, kind: str, vocabulary_size: int, sequence_length: int, **values: Any
    ) -> None:
        """Raises InputError for a field that the configuration of this type does not have."""
        super().__init__()
        aliases = CONFIG_MAPPING[kind].attribute_map
        longest = aliases.get("max_position_embeddings", "max_position_embeddings")
        fields = {*CONFIG_MAPPING[kind]().to_dict(), *aliases}
        for name in values.keys() - fields:
            raise InputError(f"{kind} has no field {name}{nearest(name, fields)}")
        length = {longest: sequence_length} if longest in fields else {}
        # No token is padding: that of another vocabulary would never be learned here.
        given = {"vocab_size": vocabulary_size, "pad_token_id": None, **length, **values}
        config = AutoConfig.for_model(kind, **given)
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

    def forward(self, tokens: Tensor) -> Tensor:
        """Compute logits [B, S, V]."""
        return self.model(input_ids=tokens, use_cache=False).logits
