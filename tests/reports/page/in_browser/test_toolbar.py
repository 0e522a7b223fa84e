"""The toolbar changes what figures show, and the page keeps what was chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from dreamer_study.reports.style import theme
from tests.reports.browser import Browser
from tests.reports.page.in_browser.helpers import (
    DRAWN,
    GIVEN,
    HERO,
    PLOTS,
    choose,
    in_browser,
    slide,
)
from tests.reports.small_results import POINTS

pytestmark = in_browser


def test_every_figure_comes_alive_without_a_word_or_a_request(page: Browser, report: Path) -> None:
    page.draw_all()
    marks = page.run(PLOTS)
    assert len(marks) > 20
    assert all(marks)
    said = [
        event["params"]
        for event in page.events
        if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
    ]
    called = [
        event["params"] for event in page.events if event["method"] == "Runtime.consoleAPICalled"
    ]
    assert not said
    assert not called, "no warning either"
    asked = [
        e["params"]["request"]["url"]
        for e in page.events
        if e["method"] == "Network.requestWillBeSent"
    ]
    assert {address for address in asked if not address.startswith(("data:", "blob:"))} == {
        report.as_uri()
    }


@pytest.mark.parametrize(
    ("menu", "value", "apart"),
    [
        ("DR", "", ("depth-attention",)),
        ("depth", "2", ("accuracy-depth-2",)),
        (
            "task",
            "gsm8k",
            ("answer", "depth-att", "expert-", "training-loss", "perplexity", "other-"),
        ),
        (
            "axis",
            "seconds",
            (
                "answer",
                "token-ratios",
                "cost-ratios",
                "ratio-",
                "depth-attention",
                "expert-",
                "other-",
                "final-accuracy",
                "item-map",
            ),
        ),
        (
            "scale",
            "linear",
            (
                "token-ratios",
                "cost-ratios",
                "ratio-",
                "depth-attention",
                "expert-",
                "other-",
                "perplexity",
                "final-accuracy",
                "item-map",
            ),
        ),
    ],
)
def test_the_toolbar_changes_all_figures_but(
    page: Browser, menu: str, value: str, apart: tuple[str, ...]
) -> None:
    page.draw_all()
    before = page.run(DRAWN)
    choose(page, **{menu: value})
    after = page.run(DRAWN)
    assert [
        name for name in before if before[name] == after[name] and not name.startswith(apart)
    ] == []
    page.run("document.querySelector('.toolbar button').click()")
    page.draw_all()
    again = page.run(DRAWN)
    assert {name: len(GIVEN.sub("", text)) for name, text in again.items()} == {
        name: len(GIVEN.sub("", text)) for name, text in before.items()
    }


def test_an_axis_of_flops_has_what_a_token_costs_times_the_tokens(page: Browser) -> None:
    choose(page, axis="flops")
    curve = page.run("""(() => {
        const view = document.querySelector('#figure-accuracy-depth-4 .plot').view;
        return Object.values(view.getState({ data: () => true, signals: () => false, recurse: true }).data).flat()
            .filter((row) => row.flops !== undefined && row.variant === 'DR').map((row) => [row.tokens, row.flops]);
    })()""")
    assert sorted({tokens for tokens, _ in curve}) == list(POINTS)
    assert all(flops == pytest.approx(3 * 9.389e8 * tokens) for tokens, flops in curve)
    title = "[...document.querySelectorAll('#figure-accuracy-depth-4 .plot text')].map((one) => one.textContent)"
    assert "training FLOPs" in page.run(title)
    assert "training tokens" not in page.run(title)


def test_a_page_that_loads_again_shows_what_was_chosen_and_the_place(page: Browser) -> None:
    slide(page, 0.5)
    choose(page, task="gsm8k", DR="")
    said = page.run(HERO)
    page.run("document.querySelector('#training').scrollIntoView({behavior: 'instant'})")
    page.settle()
    top = page.run("document.querySelector('#training').getBoundingClientRect().top")
    page.send("Page.reload")
    page.wait("document.readyState === 'complete' && !document.querySelector('.toolbar')?.hidden")
    page.settle()
    assert page.run(
        "document.querySelector('#training').getBoundingClientRect().top"
    ) == pytest.approx(top, abs=30)
    assert page.run("document.querySelector('.toolbar [value=DR]').checked") is False
    assert page.run("document.querySelector('[name=task]').value") == "gsm8k"
    page.draw_all()
    assert page.run(HERO) == said
    page.run("document.querySelector('.toolbar button').click()")
    page.draw_all()
    assert page.run("location.search") == ""
    assert "Training tokens over LA’s" in page.run(HERO)


def test_a_chosen_benchmark_leaves_the_answer(page: Browser) -> None:
    choose(page, task="gsm8k")
    assert page.run(
        "document.querySelector('#figure-answer .panel:not([hidden], .nothing) svg') !== null"
    )
    assert page.run("document.querySelector('#figure-answer .empty').hidden")


def test_the_toolbar_leaves_out_seeds_and_raw_weights_of_any_panel(page: Browser) -> None:
    script = Path(theme.__file__).with_name("choice.js").read_text()
    left = """Object.assign(choice, { seeds: false, weights: "averaged" });
        const one = { layer: [{ name: "seeds_2" }, { name: "raw_0" }, { name: "seeds" }, { mark: "line" }] };
        keepLayers(one);
        return one.layer.length;"""
    assert page.run(f"(() => {{ {script}\n{left} }})()") == 1
