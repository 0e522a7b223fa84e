"""Sheets of questions over small alphabets: every answer is right, and nothing about a table is
asked twice."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dreamer_study.pipeline.worlds.sheets import (
    Sheet,
    draw_chain,
    draw_expressions,
    draw_recall,
    draw_tracking,
)

seeds = st.integers(0, 10**6)


def read(sheet: Sheet) -> tuple[list[str], list[tuple[list[str], str]]]:
    """Read the words before the first question, and each question's words with its answer, from the
    text alone."""
    table, questions, words = [], [], []
    told = sheet.text.split()[1:]
    asked = len(sheet.beginning.split()) - 1
    table, told = told[:asked], told[asked:]
    while told:
        word, *told = told
        if word == ";":
            questions.append(([one for one in words[:-1] if one != "="], words[-1]))
            words = []
        else:
            words.append(word)
    assert not words
    return table, questions


def evaluate(words: list[str], modulus: int) -> int:
    """Work out a prefix expression from its end, with a stack."""
    stack: list[int] = []
    for word in reversed(words):
        if word in ("plus", "minus"):
            first, second = stack.pop(), stack.pop()
            stack.append(first + second if word == "plus" else first - second)
        else:
            stack.append(int(word))
    assert len(stack) == 1
    return stack[0] % modulus


@given(seeds, st.integers(1, 6), st.integers(2, 10))
def test_expressions_have_their_values(seed: int, operations: int, modulus: int) -> None:
    _, questions = read(draw_expressions(Random(seed), 8, operations, modulus))
    assert len(questions) == 8
    for words, answer in questions:
        assert evaluate(words, modulus) == int(answer)
        assert 1 <= sum(word in ("plus", "minus") for word in words) <= operations


@given(seeds, st.integers(2, 42), st.integers(1, 12))
def test_recall_asks_each_key_once(seed: int, pairs: int, questions: int) -> None:
    sheet = draw_recall(Random(seed), questions, pairs)
    table, asked = read(sheet)
    values = dict(zip(table[::2], table[1::2], strict=True))
    assert len(values) == pairs
    assert len({key for (key,), _ in asked}) == len(asked) == min(pairs, questions)
    assert all(values[key] == answer for (key,), answer in asked)
    assert set(sheet.options) == set(values.values())


@given(seeds, st.integers(2, 10), st.integers(1, 70), st.integers(2, 3))
def test_chain_follows_its_tables(seed: int, pairs: int, questions: int, tables: int) -> None:
    sheet = draw_chain(Random(seed), questions, pairs, tables)
    table, asked = read(sheet)
    following = dict(zip(table[::2], table[1::2], strict=True))
    assert len(following) == tables * pairs
    ways = pairs * tables * (tables + 1) // 2
    assert len({tuple(words) for words, _ in asked}) == len(asked) == min(ways, questions)
    for (hops, place), answer in asked:
        for _ in range(1 + ["once", "twice", "thrice"].index(hops)):
            place = following[place]
        assert place == answer
    assert len(sheet.options) == pairs


@given(seeds, st.integers(1, 9), st.integers(2, 10))
def test_tracking_tells_the_sum_so_far(seed: int, moves: int, modulus: int) -> None:
    _, asked = read(draw_tracking(Random(seed), 10, moves, modulus))
    total = 0
    for words, answer in asked:
        assert 1 <= len(words) <= moves
        total = (total + sum(map(int, words))) % modulus
        assert int(answer) == total


@given(seeds)
def test_benchmarks_ask_the_last_question(seed: int) -> None:
    sheet = draw_chain(Random(seed), 10, 5, 2)
    assert f"{sheet.prompt} {sheet.answer} ;" == sheet.text
    assert sheet.answer in sheet.options


def test_answers_are_near_uniform_over_their_options() -> None:
    random, places = Random(0), Counter()
    for _ in range(5000):
        sheet = draw_chain(random, 10, 5, 2)
        places[sheet.options.index(sheet.answer)] += 1
    assert all(900 < count < 1100 for count in places.values())
