"""The description of a model of somebody's own class: its arguments."""

from transformers import PretrainedConfig


class OwnClassConfig(PretrainedConfig):
    """The sizes of the vocabulary and of a row, and the arguments of the class by name."""

    model_type = "own_class"
    attribute_map = {"max_position_embeddings": "sequence_length"}

    def __init__(self, vocab_size=0, sequence_length=0, arguments=None, **values):
        self.vocab_size = vocab_size
        self.sequence_length = sequence_length
        self.arguments = arguments or {}
        super().__init__(**{"use_cache": False, "tie_word_embeddings": False, **values})
