from __future__ import annotations

import json

import pandas as pd

from reports.text.names import variants_in_words


def test_each_variant_is_said_by_its_configuration_and_not_by_its_name() -> None:
    configurations = {
        "X": json.dumps({"recurrent": False, "depth_attention": False}),
        "Y": json.dumps({"recurrent": True, "depth_attention": True}),
        "GPT": json.dumps({"module": "my_models.py:GPT"}),
        "from elsewhere": None,
    }
    models = pd.DataFrame({"variant": configurations.keys(), "config": configurations.values()})
    said = variants_in_words(models)
    assert said.startswith("X: a layer of its own for each depth. Y: one layer used at every depth, attention over")
    assert said.endswith("GPT: my_models.py:GPT.")
