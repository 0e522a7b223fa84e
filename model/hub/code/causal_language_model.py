"""What transformers asks of a causal language model, for a network that reads rows of tokens.

A network is asked for the logits of whole rows that begin at their first token. There is no cache:
each generated token reads its row anew, which every architecture allows.

Axes: B batch, S sequence, V vocabulary.
"""

import torch
from torch import nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class CausalLanguageModel(PreTrainedModel, GenerationMixin):
    """A causal language model around `self.network`, which `build` makes."""

    def __init__(self, config):
        super().__init__(config)
        # transformers builds models without numbers, where a class of anybody's may not run
        with torch.device("cpu"):
            self.network = self.build(config)
        self.post_init()

    def build(self, config) -> nn.Module:
        """Make the network, with weights of its own."""
        raise NotImplementedError

    def read(self, tokens_BS):
        """Compute the logits [B, S, V] of rows."""
        raise NotImplementedError

    @classmethod
    def from_pretrained(cls, *arguments, **options):
        """Load a model.

        The network is built again around the loaded tensors: tables that no file holds, and
        tensors in two places, are then as its class makes them.
        """
        loaded = super().from_pretrained(*arguments, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        tensors = model.network.state_dict()
        network = model.build(model.config)
        network.load_state_dict(tensors)
        model.network = network.to(model.device, model.dtype).eval()
        return loaded

    def save_pretrained(self, folder, *arguments, state_dict=None, **options):
        """Save the model; a tensor in two places is written twice."""
        tensors = self.state_dict() if state_dict is None else state_dict
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
        return super().save_pretrained(folder, *arguments, state_dict=copies, **options)

    def forward(self, input_ids, attention_mask=None, labels=None, **_):
        """Compute logits [B, S, V], and with labels [B, S] the loss of the next tokens."""
        if attention_mask is None or bool(attention_mask.all()):
            logits_BSV = self.read(input_ids)
        else:
            logits_BSV = self._read_padded(input_ids, attention_mask)
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits_BSV, labels=labels, vocab_size=logits_BSV.shape[-1]
            )
        return CausalLMOutput(loss=loss, logits=logits_BSV)

    def _read_padded(self, input_ids, attention_mask):
        """Read rows whose padding is on the left or the right.

        Padding on the left is moved to the right, where causality keeps it out.
        """
        length = input_ids.shape[1]
        padding_B1 = attention_mask.long().argmax(dim=1, keepdim=True)  # tokens before the first
        places_1S = torch.arange(length, device=input_ids.device)[None]
        moved_BS = input_ids.gather(1, (places_1S + padding_B1) % length)
        logits_BSV = self.read(moved_BS)
        back_BS = (places_1S - padding_B1) % length
        return logits_BSV.gather(1, back_BS[..., None].expand_as(logits_BSV))

    def generate(self, *arguments, **options):
        """Generate without a cache, also where one is asked for."""
        return super().generate(*arguments, **{**options, "use_cache": False})

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        """Give whole rows to each step."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def _init_weights(self, module):
        """Leave weights as `build` has drawn them."""
