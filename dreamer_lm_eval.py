"""Make `lm_eval --model dreamer` work: called by `import torch`, as an entry point of the group `torch.backends`.

lm-eval (0.4.13) loads no plug-ins. torch does, and lm-eval's command imports it right before it looks the model up.
That group is meant for devices; it is the one supported hook on the way, and unlike a command named `lm_eval` of our
own it owns no file of another package. It runs in every program of this environment that imports torch, so it must
stay light, and does nothing unless lm-eval is there.

It stands by itself, under a name that nobody else has: in `model/`, a `model.py` beside someone's own program would
keep that program from importing torch.
"""

from __future__ import annotations

import sys


def register() -> None:
    """Tell lm-eval's registry where the model is, without importing it."""
    if "lm_eval" in sys.modules:
        from lm_eval.api.registry import model_registry

        if "dreamer" not in model_registry:
            model_registry.register("dreamer", target="model.evaluation.harness:DreamerLM")
