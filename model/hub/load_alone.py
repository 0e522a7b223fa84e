"""Load an exported folder as anybody would: by transformers, where this project cannot be imported.

`python load_alone.py FOLDER EXPECTED` prints the largest difference of the logits from the expected
ones, and their largest, as JSON. EXPECTED is a file of safetensors with tokens [B, S] and logits
[B, S, V]. This file imports nothing of the project either.
"""

import json
import sys


def main(folder: str, expected: str) -> None:
    """Compare the logits, and print how far they differ."""
    # an import of the project fails as it would where the project is not installed
    sys.modules["dreamer_study"] = None
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    tensors = load_file(expected)
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
    with torch.no_grad():
        logits = model(input_ids=tensors["tokens"]).logits.float()
    difference = float((logits - tensors["logits"]).abs().max())
    print(json.dumps({"difference": difference, "largest": float(tensors["logits"].abs().max())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
