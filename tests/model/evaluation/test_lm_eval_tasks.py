"""The adapter: every number equal to a plain, unbatched, uncached computation; lm-eval's tasks as
lm-eval builds them."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import datasets
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM

from dreamer_study.model.evaluation import lm_eval_definitions, lm_eval_files, lm_eval_model
from dreamer_study.model.evaluation.language_model import Generation, LanguageModel
from dreamer_study.model.evaluation.lm_eval_definitions import build_task
from dreamer_study.model.evaluation.lm_eval_tasks import LmEvalTask
from dreamer_study.model.evaluation.log_likelihoods import Scoring, rolling_windows
from dreamer_study.model.evaluation.tokenizer import Tokenizer
from dreamer_study.model.evaluation.trust import SAMPLES_LEFT_OUT
from dreamer_study.pipeline.errors import InputError
from tests.model.evaluation.evaluation_world import (
    USERS_TASK,
    plain_generation,
    plain_log_likelihood,
    small_model,
    write_data,
)
from tests.model.saved_files import save_model

lm_eval_definitions.tune_libraries()


def specification(benchmark: str, task: str, place: Path, **more: Any) -> dict[str, Any]:
    own = {
        "metric": None,
        "filter": "none",
        "chance": 0.25,
        "yaml": None,
        "overrides": {},
    }
    return {"benchmark": benchmark, "task": task, "dataset_path": str(place), **own, **more}


# --- log-likelihoods ---


@pytest.mark.parametrize("batch_tokens", [1, 200, 100_000])
def test_log_likelihoods_equal_a_plain_pass(batch_tokens: int) -> None:
    model = small_model()
    context = list(range(1, 31))
    likely = plain_generation(model, context, 4, end_token=-1)
    options = [[5], [6], [7, 8, 9], [7, 8], [7], [5], likely, likely[:1]]
    # one question, options of different lengths, one twice
    pairs = [(context, option) for option in options]
    pairs += [(context[:20], [4, 4]), ([3], [1] * 40), ([3], [2] * 40), (context, [9] * 50)]
    # too long
    pairs += [
        (list(range(200, 310)), [1, 2]),
        (list(range(200, 310)), [3, 4, 5]),
        (list(range(96)), [9]),
    ]
    found = Scoring(model, pairs, batch_tokens=batch_tokens).finish()
    for (context, continuation), (value, greedy) in zip(pairs, found, strict=True):
        expected, likeliest = plain_log_likelihood(model, context, continuation)
        assert math.isclose(value, expected, rel_tol=1e-5, abs_tol=1e-4)
        assert greedy == likeliest
    assert found[6][1]  # what greedy decoding writes is recognised


LA = {"recurrent": False, "depth_attention": False}


def test_a_continuation_longer_than_the_model_reads() -> None:
    model = small_model(sequence_length=16)
    continuation = [7 * place % 320 for place in range(40)]
    expected = [
        plain_log_likelihood(model, context, scored)
        for context, scored in rolling_windows(continuation, 3, 16)
    ]
    (found,) = Scoring(model, [([1, 2, 3], continuation)]).finish()
    assert found[0] == pytest.approx(sum(value for value, _ in expected), abs=1e-4)
    assert Scoring(model, [([1], [])]).finish() == [(0.0, True)]


@pytest.mark.slow
@given(st.lists(st.integers(1, 99), max_size=60), st.integers(1, 20))
def test_rolling_windows_are_those_of_lm_eval(text: list[int], length: int) -> None:
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    expected = map(make_disjoint_window, get_rolling_token_windows(text, 0, length, 1))
    assert rolling_windows(text, 0, length) == list(expected)


def test_a_cuda_device_that_is_not_there_is_the_cpu_with_a_line(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """lm-eval's command passes `cuda:0` where no device is named."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    save_model(tmp_path / "model", small_model(0))
    for device, lines in (("cuda:0", 1), ("cuda", 1), ("cpu", 0), (None, 0)):
        lm = lm_eval_model.DreamerLM(str(tmp_path / "model"), str(folder / "tokenizer"), device)
        assert lm.text.model.head.device.type == "cpu"
        said = capsys.readouterr().err.splitlines()
        assert [
            f"device is '{device}', but torch finds no CUDA device here" in line for line in said
        ] == [True] * lines


def test_pairs_are_cut_apart_as_lm_eval_does(text_model: LanguageModel) -> None:
    theirs = SimpleNamespace(tok_encode=text_model.tokenizer.encode, backend="causal")
    pairs = [
        ("Question: How many?\nAnswer:", " 7"),
        ("Question: How many?\nAnswer: ", "7"),
        ("A. one\nB. two\nAnswer:", " B"),
        ("x\n\n", "naïve"),
    ]
    assert text_model.tokenizer.encode_pairs(pairs) == [
        TemplateLM._encode_pair(theirs, *pair) for pair in pairs
    ]
    end = text_model.tokenizer.end_token
    assert text_model.tokenizer.encode_pairs([("", "7")]) == [
        ([end], text_model.tokenizer.encode("7"))
    ]
    assert end not in text_model.tokenizer.encode("<|end|>")  # no text can end a document


# --- writing ---


@pytest.mark.slow
@pytest.mark.parametrize("family", [LA, {"depth_attention": False}, {}], ids=str)
def test_what_lm_eval_asks_is_answered_item_by_item(
    text_model: LanguageModel, family: dict[str, bool]
) -> None:
    """lm-eval's three questions, as it asks them, against texts encoded and passed through the
    network one at a time: empty contexts, several tokens to continue with, stop strings, and
    contexts longer than the model reads."""
    model, tokenizer = small_model(sequence_length=96, **family), text_model.tokenizer
    lm, end = lm_eval_model.DreamerLM(LanguageModel(model, tokenizer)), tokenizer.end_token

    def instances(kind: str, arguments: list[tuple]) -> list[Instance]:
        return [Instance(kind, {}, each, number) for number, each in enumerate(arguments)]

    long = "Ben gives away 12 of 20 apples. How many are left? " * 9
    contexts = ["", "Question: How many?\nAnswer:", "Ann has ", long]
    assert len(tokenizer.encode(long)) > 96
    pairs = [
        (context, text)
        for context in contexts
        for text in (" 7", "12 coins and 8 apples", " naïve ½")
    ]
    for (context, text), (value, greedy) in zip(
        pairs, lm.loglikelihood(instances("loglikelihood", pairs)), strict=True
    ):
        spaces = context[len(context.rstrip()) :]
        tokens = tokenizer.encode(context.rstrip()) or [end], tokenizer.encode(spaces + text)
        expected, likeliest = plain_log_likelihood(model, *tokens)
        assert value == pytest.approx(expected, abs=1e-4)
        assert greedy == likeliest

    texts = [(text,) for text in ("7", "Ann has 3 coins.", long)]
    found = lm.loglikelihood_rolling(instances("loglikelihood_rolling", texts))
    for (text,), value in zip(texts, found, strict=True):
        windows = rolling_windows(tokenizer.encode(text), end, 96)
        assert value == pytest.approx(
            sum(plain_log_likelihood(model, *window)[0] for window in windows), abs=1e-3
        )

    free = [
        tokenizer.decode(plain_generation(model, _cut(tokenizer, text, 96 - 20), 20, end))
        for text in contexts
    ]
    # Of several characters and of one; none that stand for half a character.
    several, one = (
        next(filter(None, (re.search(stop, text) for text in free)))[0]
        for stop in ("[ -~]{3}", "[a-z]")
    )
    stops = [[], ["never written"], [several, one]]
    asked = [
        (context, {"until": until, "max_gen_toks": 20}) for context in contexts for until in stops
    ]
    written = lm.generate_until(instances("generate_until", asked))
    expected = [_before(text, until) for text in free for until in stops]
    assert written == expected
    assert len(set(written)) > len(contexts)  # the stop strings stop something


def _cut(tokenizer: Tokenizer, prompt: str, room: int) -> list[int]:
    return (tokenizer.encode(prompt) or [tokenizer.end_token])[-room:]


def _before(text: str, stops: list[str]) -> str:
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]


@pytest.mark.slow
def test_a_stop_string_ends_the_writing(text_model: LanguageModel) -> None:
    """Not only is the text cut: the tokens behind the stop string are never computed."""
    (text,) = text_model.generate([("Ann has", Generation(max_new_tokens=40))])
    stop = text_model._stop((text[4:6],))
    tokens = text_model.tokenizer.encode(text)
    ends = [stop(tokens[:length]) for length in range(1, len(tokens) + 1)]
    first = ends.index(True) + 1
    assert text_model.tokenizer.decode(tokens[:first]).count(text[4:6]) >= 1
    assert text[4:6] not in text_model.tokenizer.decode(tokens[: first - 1])


def test_generation_arguments() -> None:
    assert Generation.from_arguments(
        {"until": "\n", "do_sample": False, "temperature": 0.7}
    ) == Generation(("\n",))
    assert Generation.from_arguments(
        {"until": ["a", ""], "max_tokens": 9, "top_p": 1.0}
    ) == Generation(("a",), 9)
    with pytest.raises(InputError, match="argument 'num_beams' of the task is not supported"):
        Generation.from_arguments({"num_beams": 4})
    for arguments in ({"do_sample": True}, {"temperature": 0.7}):
        with pytest.raises(InputError, match="the task samples its answers"):
            Generation.from_arguments(arguments)


def test_narrow_weights_route_as_the_wide_ones_do(text_model: LanguageModel) -> None:
    """What CUDA computes in: bfloat16, except for routing, so that tokens keep their experts, and
    for gains."""
    model = copy.deepcopy(text_model.model)
    model.narrow()
    routing = {
        f"{router}.{name}"
        for router in model.routers()
        for name, _ in model.get_submodule(router).named_parameters()
    }
    for name, parameter in model.named_parameters():
        assert parameter.dtype == (
            torch.float32 if name in routing or parameter.ndim == 1 else torch.bfloat16
        ), name
    pairs = [("Question: How many?\nAnswer:", f" {number} coins") for number in range(10)]
    narrowed = LanguageModel(model, text_model.tokenizer).log_likelihoods(pairs)
    for (value, _), (expected, _) in zip(narrowed, text_model.log_likelihoods(pairs), strict=True):
        assert value == pytest.approx(expected, rel=0.05)
    assert (
        len(
            LanguageModel(model, text_model.tokenizer).generate(
                [("Ann has", Generation(max_new_tokens=8))]
            )[0]
        )
        > 0
    )


# --- tasks ---


def test_a_users_own_task(tmp_path: Path) -> None:
    place = write_data(
        tmp_path / "data", "default", test=[{"question": "Sides of a square?", "answer": "4"}]
    )
    path = tmp_path / "shapes.yaml"
    path.write_text(USERS_TASK)
    overrides = {"doc_to_text": "{{question}} =", "generation_kwargs": {"until": [";"]}}
    given = specification("shapes", "shapes", place, yaml=str(path), overrides=overrides)
    task = LmEvalTask(given, max_new_tokens=99, cache=tmp_path)
    asked = "Sides of a square? ="
    assert task.requests == {
        "generate_until": [(asked, Generation((";",), 5))],
        "loglikelihood": [(asked, " 4")],
    }
    scored = task.score({"generate_until": ["4"], "loglikelihood": [(-math.log(8), False)]})
    assert (scored.version, scored.measures[0].findings) == ("2.5", {"shapes/0": 1.0})
    assert scored.measures[1].findings == {"shapes/0": pytest.approx(3)}
    # nothing is left over
    scored = task.score({"generate_until": ["5"], "loglikelihood": [(-math.log(4), False)]})
    assert [measure.findings for measure in scored.measures] == [
        {"shapes/0": 0.0},
        {"shapes/0": pytest.approx(2)},
    ]


def test_data_in_folders_of_one_name_are_those_of_each(tmp_path: Path) -> None:
    path = tmp_path / "shapes.yaml"
    path.write_text(USERS_TASK)
    asked = []
    for owner in ("openai", "mine"):
        item = {"question": f"Of {owner}?", "answer": "4"}
        place = write_data(tmp_path / owner / "gsm8k", "default", test=[item])
        given = specification("shapes", "shapes", place, yaml=str(path))
        task = LmEvalTask(given, cache=tmp_path / "cache")
        asked += [request for request, _ in task.requests["generate_until"]]
    assert ["openai" in asked[0], "mine" in asked[1]] == [True, True]


GOLD_TASKS = {
    "by number": (
        "multiple_choice",
        {"doc_to_target": "{{place}}", "doc_to_choice": "{{choices}}"},
        [" 3", " 4"],
    ),
    "by text": (
        "multiple_choice",
        {"doc_to_target": "answer", "doc_to_choice": "{{choices}}"},
        [" 3", " 4"],
    ),
    "a number": ("generate_until", {"doc_to_target": "number"}, [" 4"]),
    "the first of several": ("generate_until", {"doc_to_target": "answers"}, ["<4"]),
    "the number of a choice": (
        "generate_until",
        {"doc_to_target": "place", "doc_to_choice": "choices"},
        [" 4"],
    ),
    "one continuation": ("loglikelihood", {"doc_to_target": " {{answer}}"}, [" 4"]),
}


@pytest.mark.parametrize("kind", GOLD_TASKS)
def test_gold_answers_as_tasks_name_them(tmp_path: Path, kind: str) -> None:
    output, fields, asked = GOLD_TASKS[kind]
    row = {"answer": "4", "number": 4, "answers": ["4", "four"], "choices": ["3", "4"], "place": 1}
    place = write_data(
        tmp_path / "data", "default", test=[{"question": "Sides of a square?", **row}]
    )
    if output == "generate_until":
        fields = {**fields, "generation_kwargs": {"until": ["\n"]}}
    if kind == "the first of several":
        fields["target_delimiter"] = "<"
    metric = "exact_match" if output == "generate_until" else "acc"
    common = {
        "task": "shapes",
        "dataset_name": "default",
        "output_type": output,
        "test_split": "test",
    }
    measured = {"doc_to_text": "{{question}}", "metric_list": [{"metric": metric}]}
    path = tmp_path / "shapes.yaml"
    path.write_text(json.dumps({**common, **measured, **fields}))
    task = LmEvalTask(specification("shapes", "shapes", place, yaml=str(path)), cache=tmp_path)
    assert [continuation for _, continuation in task.requests["loglikelihood"]] == asked
    answers = {
        "loglikelihood": [(-math.log(2 ** (2 + number)), False) for number in range(len(asked))]
    }
    scored = task.score(
        {**answers, "generate_until": ["4"]} if output == "generate_until" else answers
    )
    (gold,) = [measure for measure in scored.measures if measure.metric == "gold_bits_per_byte"]
    assert gold.findings == {"shapes/0": pytest.approx(1 + len(asked))}


def test_a_metric_that_the_task_does_not_have_is_told_with_those_it_has(tmp_path: Path) -> None:
    place = write_data(
        tmp_path / "data", "default", test=[{"question": "Sides of a square?", "answer": "4"}]
    )
    path = tmp_path / "shapes.yaml"
    path.write_text(USERS_TASK)
    answers = {"generate_until": ["4"], "loglikelihood": [(-1.0, False)]}
    for named in ({"metric": "exact_mach"}, {"metric": "exact_match", "filter": "strip"}):
        given = specification("shapes", "shapes", place, yaml=str(path), **named)
        with pytest.raises(
            InputError, match=r"shapes has no metric .*; it has exact_match with none, gold_bits"
        ):
            LmEvalTask(given, cache=tmp_path).score(answers)


def test_items_without_a_gold_answer_are_left_out(tmp_path: Path) -> None:
    rows = [
        {"question": "Sides of a square?", "answer": "4"},
        {"question": "Of a circle?", "answer": ""},
    ]
    path = tmp_path / "shapes.yaml"
    path.write_text(USERS_TASK)
    found = []
    for number in (0, 1):
        place = write_data(tmp_path / str(number), "default", test=rows[number:])
        task = LmEvalTask(specification("shapes", "shapes", place, yaml=str(path)), cache=tmp_path)
        answer = {"generate_until": "4", "loglikelihood": (-1.0, False)}
        answers = {kind: [answer[kind]] * len(asked) for kind, asked in task.requests.items()}
        found.append(
            {measure.metric: list(measure.findings) for measure in task.score(answers).measures}
        )
    assert found[0] == {"exact_match": ["shapes/0", "shapes/1"], "gold_bits_per_byte": ["shapes/0"]}
    assert found[1] == {"exact_match": ["shapes/0"]}


def test_changed_data_of_the_same_date_are_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "shapes.yaml"
    path.write_text(USERS_TASK)
    prompts = []
    for text in ("one", "two"):
        place = write_data(tmp_path / "data", "default", test=[{"question": text, "answer": "4"}])
        for file in place.rglob("*"):
            os.utime(file, (0, 0))
        with TemporaryDirectory(dir=tmp_path) as cache:
            task = LmEvalTask(specification("shapes", "shapes", place, yaml=str(path)), cache=cache)
        prompts += [prompt for prompt, _ in task.requests["generate_until"]]
    assert prompts == ["one", "two"]


@pytest.mark.slow
def test_what_can_go_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lm-eval has no task 'gsm8'; did you mean gsm8k"):
        lm_eval_files.find_task("gsm8")
    with pytest.raises(
        InputError, match=r"benchmark gsm8k: task gsm8k: no data in .*nowhere.*dreamer download"
    ):
        build_task(specification("gsm8k", "gsm8k", tmp_path / "nowhere"), tmp_path)
    place = write_data(tmp_path / "data", "main", train=[{"question": "?", "answer": "4"}])
    with pytest.raises(InputError, match="has no split 'test', only train"):
        build_task(specification("gsm8k", "gsm8k", place), tmp_path)
    place = write_data(tmp_path / "other", "main", test=[{"query": "?", "answer": "4"}])
    path = tmp_path / "shapes.yaml"
    path.write_text(USERS_TASK.replace("metadata: {version: 2.5}", "repeats: many"))
    with pytest.raises(InputError, match=r"lm-eval refuses the definition in .*shapes.yaml"):
        build_task(
            specification("s", "shapes", place, yaml=str(path), overrides={"dataset_name": "main"})
        )
    left_out = {"num_fewshot": 1, "fewshot_config": {"samples": [SAMPLES_LEFT_OUT]}}
    with pytest.raises(InputError, match="its few-shot samples were left out when"):
        build_task(specification("s", "shapes", place, yaml=str(path), overrides=left_out))
    path.write_text("group: several\ntask: [gsm8k, mathqa]")
    with pytest.raises(InputError, match="defines no single task"):
        build_task(specification("s", "several", place, yaml=str(path)))


def test_a_limit_asks_a_sample_whose_items_keep_their_ids(tmp_path: Path) -> None:
    """Not the first ones, which are often alike; of a larger limit the same ones and more."""
    rows = [{"question": f"q{number}", "answer": str(number)} for number in range(200)]
    place = write_data(tmp_path / "data", "default", test=rows)
    path = tmp_path / "shapes.yaml"
    path.write_text(USERS_TASK)
    given = specification("shapes", "shapes", place, yaml=str(path))
    asked: dict[int | None, dict[str, float]] = {}
    for limit in (5, 40, 500, None):
        task = LmEvalTask(given, limit=limit, cache=tmp_path)
        prompts = [prompt for prompt, _ in task.requests["generate_until"]]
        answers = {
            "generate_until": [prompt.removeprefix("q") for prompt in prompts],
            "loglikelihood": [(-1.0, False)] * len(prompts),
        }
        scored = task.score(answers)
        asked[limit] = scored.measures[0].findings
        # each item is compared with its own answer, under its own number
        assert set(asked[limit].values()) == {1.0}
        assert [f"shapes/{prompt[1:]}" for prompt in prompts] == list(asked[limit])
        assert list(scored.answers) == list(asked[limit])
    assert len(asked[5]) == 5
    assert max(int(item.removeprefix("shapes/")) for item in asked[5]) > 100
    assert asked[5].keys() < asked[40].keys() < asked[None].keys() == asked[500].keys()
    again = LmEvalTask(given, limit=5, cache=tmp_path)
    assert [f"shapes/{prompt[1:]}" for prompt, _ in again.requests["generate_until"]] == list(
        asked[5]
    )


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError("Not enough disk space. Needed: Unknown size"), "is full: free some space"),
        (OSError(errno.ENOSPC, "No space left on device"), "is full: free some space"),
        (MemoryError(), "a machine with more memory"),
        (ValueError("no such configuration"), "fetch it with `dreamer download`"),
    ],
)
def test_data_that_cannot_be_loaded_have_the_right_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, advice: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("while generating the data set") from error

    monkeypatch.setattr(datasets, "load_dataset", fail)
    with pytest.raises(InputError) as raised:
        build_task(specification("gsm8k", "gsm8k", tmp_path), tmp_path)
    assert advice in str(raised.value)
    assert ("dreamer download" in str(raised.value)) == isinstance(error, ValueError)
