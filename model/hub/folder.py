"""Write a trained model as a folder for transformers: AutoModelForCausalLM and AutoTokenizer.

    config.json, generation_config.json      sizes; the end mark, at which `generate` stops
    model.safetensors                        the weights
    tokenizer.json, tokenizer_config.json    the study's tokenizer, as training has used it
    *.py                                     of Dreamer and own classes: code, in plain torch

A model of the transformers library is written by that library, and needs no code. The folder is
loaded again without this project, and its logits are compared, before anybody is given it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from dreamer_study.model import ops
from dreamer_study.model.architectures.wrapped import Wrapped
from dreamer_study.model.contract import Network
from dreamer_study.model.dreamer_config import DreamerConfig
from dreamer_study.model.hub import load_alone
from dreamer_study.model.hub.own_files import flat_files
from dreamer_study.model.module_config import TRANSFORMERS
from dreamer_study.model.random_states import keeping_random_states
from dreamer_study.pipeline.errors import InputError
from dreamer_study.pipeline.settings import read_object

CODE = Path(__file__).parent / "code"
OF_DREAMER = ("causal_language_model.py", "configuration_dreamer.py", "modeling_dreamer.py")
OF_OWN_CLASS = ("causal_language_model.py", "configuration_own_class.py", "modeling_own_class.py")
# end the names of tensors that the forward pass of a trained model does not read
OF_TRAINING = (".router.counts", "iterates")
NEAR = 2e-5  # relative to the largest logit: what the order of sums may change
ROW = 64  # tokens of the rows that are compared


def write_folder(folder: Path, network: Network, tokenizer: Path, code: Path | None = None) -> None:
    """Fill an empty folder. `tokenizer` is the folder of the network's, `code` that of its files.

    Raises InputError where transformers is not installed, and where the folder does not load by
    itself or gives other logits.
    """
    # imports transformers, or says that it is not installed
    from dreamer_study.model.architectures import transformers_model  # noqa: F401

    config = network.config
    end_token = network.tokenizer.end_token
    marks = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), end_token)
    if isinstance(config, DreamerConfig):
        if network.checked_depth(None) != config.depth:
            raise InputError(
                f"this checkpoint is from before the recurrent layer is iterated (recurrence_after:"
                f" {config.recurrence_after:,} tokens), and a folder holds a model that iterates"
                " it; export a later checkpoint"
            )
        tensors = {
            name: tensor
            for name, tensor in network.state_dict().items()
            if not name.endswith(OF_TRAINING)
        }
        described = {**_auto_map("dreamer", "Dreamer"), **config.to_dict()}
        _write_model(folder, described, tensors, marks)
        _copy(OF_DREAMER, folder)
    elif config.module.startswith(f"{TRANSFORMERS}:"):
        _write_of_transformers(folder, network, marks)
    else:
        assert code is not None, "a class of the user's code has a folder of code"
        texts = flat_files(code, config.module, config.files)
        described = _auto_map("own_class", "OwnClass") | {
            "vocab_size": config.vocabulary_size,
            "sequence_length": config.sequence_length,
            "arguments": config.config,
        }
        assert isinstance(network, Wrapped), "what is no Dreamer is wrapped"
        _write_model(folder, described, network.module.state_dict(), marks)
        _copy(OF_OWN_CLASS, folder)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    _write_tokenizer(folder, tokenizer, config.sequence_length)
    _check_alone(folder, network)


def _auto_map(name: str, prefix: str) -> dict[str, Any]:
    """Say which classes transformers takes from the folder."""
    return {
        "model_type": name,
        "architectures": [f"{prefix}ForCausalLM"],
        "auto_map": {
            "AutoConfig": f"configuration_{name}.{prefix}Config",
            "AutoModelForCausalLM": f"modeling_{name}.{prefix}ForCausalLM",
        },
    }


def _write_model(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], marks: Mapping[str, int]
) -> None:
    floating = [tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()]
    dtype = str(floating[0]).removeprefix("torch.")
    _dump(folder / "config.json", {**config, **marks, "dtype": dtype})
    _dump(folder / "generation_config.json", {**marks, "use_cache": False})
    # a tensor in two places is written twice: the class makes one of the two
    copies = {f"network.{name}": tensor.detach().clone() for name, tensor in tensors.items()}
    save_file(copies, folder / "model.safetensors", metadata={"format": "pt"})


def _write_of_transformers(folder: Path, network: Network, marks: Mapping[str, int]) -> None:
    """Let the library write its model; its own configuration names other marks than ours."""
    from transformers import GenerationConfig
    from transformers.utils import logging

    assert isinstance(network, Wrapped), "what is no Dreamer is wrapped"
    model: Any = network.module.model
    for name, token in marks.items():
        if name != "pad_token_id":  # with one, a model of this library would leave a token out
            setattr(model.config, name, token)
    model.generation_config = GenerationConfig(**marks)
    logging.disable_progress_bar()  # of a file that is written in no time
    model.save_pretrained(folder)


def _copy(names: tuple[str, ...], folder: Path) -> None:
    for name in names:
        shutil.copyfile(CODE / name, folder / name)


def _write_tokenizer(folder: Path, source: Path, length: int) -> None:
    """Write the tokenizer so that a text is encoded as in training: without marks around it."""
    content = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    content["post_processor"] = None  # which may add marks
    _dump(folder / "tokenizer.json", content)
    end_mark = read_object(source / "tokenizer_meta.json", "end")["end"]
    values = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **dict.fromkeys(("bos_token", "eos_token", "pad_token"), end_mark),
        "model_max_length": length,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # an end mark that is written out in a text is text
        "padding_side": "left",
    }
    _dump(folder / "tokenizer_config.json", values)


def _check_alone(folder: Path, network: Network) -> None:
    """Raise InputError where the folder does not load without this project, or is another model."""
    config = network.config
    with keeping_random_states(), torch.no_grad(), ops.engine("torch"):
        torch.manual_seed(0)
        shape = (2, min(ROW, config.sequence_length))
        tokens = torch.randint(config.vocabulary_size, shape)
        logits = network(tokens).float()
    with tempfile.TemporaryDirectory() as temporary:
        expected = Path(temporary) / "expected.safetensors"
        save_file({"tokens": tokens, "logits": logits.contiguous()}, expected)
        done = subprocess.run(
            [sys.executable, "-P", load_alone.__file__, str(folder), str(expected)],
            cwd=temporary,
            env={
                **os.environ,
                "HF_HOME": str(Path(temporary) / "home"),
                "HF_MODULES_CACHE": str(Path(temporary) / "modules"),
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise InputError(
            f"{network.label}: nothing was written, as transformers cannot load the model without"
            f" this project: {last}"
        )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if not found["difference"] <= NEAR * found["largest"]:
        raise InputError(
            f"{network.label}: nothing was written, as the logits of the exported model differ by"
            f" {found['difference']:.1e} from the trained model's, whose largest is"
            f" {found['largest']:.1e}"
        )


def _dump(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False), encoding="utf-8")
