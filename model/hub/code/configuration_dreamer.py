"""The sizes and switches of a Dreamer model."""

from transformers import PretrainedConfig

SIZES = {
    "depth": 16,  # layers, or iterations of the one layer of a recurrent model
    "recurrent": False,  # whether one layer is iterated
    "depth_attention": False,  # whether there is attention over the depths of a token
    "mixture": "partial",  # the order of the attentions in a layer
    "vocabulary_size": 128256,
    "hidden_size": 1024,
    "query_heads": 16,
    "key_value_heads": 8,
    "head_size": 128,
    "depth_heads": 1,
    "depth_key_value_heads": 1,
    "depth_head_size": 128,
    "depth_window": None,  # the latest depths that attention over depths sees; None: all
    "experts": 32,
    "active_experts": 8,
    "expert_size": 512,
    "routing_size": 128,
    "sequence_length": 4096,
    "shared_expert": True,  # in the attention mixtures of a recurrent model
    "rope_base": 10000.0,
    "depth_rope_base": 500.0,
    "expert_bias_rate": 1e-3,  # of training
    "attention_bias_rate": 1e-2,  # of training
    "norm_epsilon": 1e-6,
    "prelude": 0,  # layers of their own before the recurrent one
    "coda": 0,  # layers of their own after it
    "expert_pool": False,  # whether all layers share one pool of experts
    "recurrence_after": 0,  # tokens of training after which the recurrent layer was iterated
}


class DreamerConfig(PretrainedConfig):
    """The sizes of a model, by the names above; `vocab_size` and others are names for the same."""

    model_type = "dreamer"
    attribute_map = {
        "vocab_size": "vocabulary_size",
        "max_position_embeddings": "sequence_length",
        "num_hidden_layers": "depth",
        "num_attention_heads": "query_heads",
        "num_key_value_heads": "key_value_heads",
    }

    def __init__(self, **values):
        for name, default in SIZES.items():
            setattr(self, name, values.pop(name, default))
        super().__init__(**{"use_cache": False, "tie_word_embeddings": False, **values})
