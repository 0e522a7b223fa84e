"""A model of somebody's own class for transformers; `own_class.py` says which class that is.

Axes: B batch, S sequence, V vocabulary.
"""

from inspect import Parameter, signature

from torch import nn

from .causal_language_model import CausalLanguageModel
from .configuration_own_class import OwnClassConfig
from .own_class import OwnClass


class OwnClassForCausalLM(CausalLanguageModel):
    """Hold an object of the class as `network`."""

    config_class = OwnClassConfig

    def build(self, config):
        """Make an object of the class."""
        return OwnClass(
            vocabulary_size=config.vocab_size,
            sequence_length=config.sequence_length,
            **config.arguments,
        )

    def read(self, tokens_BS):
        """Compute the logits [B, S, V] by the methods `states` and `logits`, or by `forward`."""
        network = self.network
        if _is_method(network, "states") and _is_method(network, "logits"):
            return network.logits(network.states(tokens_BS))
        parameters = signature(network.forward).parameters
        kinds = {parameter.kind for parameter in parameters.values()}
        by_place = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
        if "input_ids" in parameters and not kinds & by_place:
            output = network(input_ids=tokens_BS)
        else:
            output = network(tokens_BS)
        if isinstance(output, tuple | list):
            return output[0]
        return getattr(output, "logits", output)


def _is_method(network, name):
    own = getattr(network, name, None)
    return callable(own) and not isinstance(own, nn.Module)
