"""What a figure says in words follows what is chosen; names are shown apart."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from dreamer_study.reports.page.report import write_report
from dreamer_study.reports.style import theme
from dreamer_study.reports.text.names import short_names
from tests.reports.browser import Browser
from tests.reports.page.in_browser.helpers import (
    PLOTS,
    choose,
    in_browser,
    of_files,
    slide,
)
from tests.reports.small_results import RIGHT, STUDY, whole_study

pytestmark = in_browser

# What each figure says, by its name.
SAID = """Object.fromEntries([...document.querySelectorAll('[data-figure]')].map((figure) => [figure.dataset.figure, {
    title: figure.querySelector('.title')?.textContent ?? '',
    finding: figure.querySelector('figcaption .finding').textContent,
    caption: figure.querySelector('figcaption .caption').textContent,
    panels: [...figure.querySelectorAll('.panel:not([hidden], .nothing)')].map((panel) =>
        [panel.querySelector('.panel-title')?.textContent ?? '', panel.querySelector('.plot').getAttribute('aria-label')]),
}]))"""


def test_what_a_figure_says_follows_the_chosen_benchmark(page: Browser) -> None:
    before = page.run(SAID)["accuracy-depth-4"]
    assert before["finding"].startswith("Average, at best: LA 50.0%")
    choose(page, task="gsm8k")
    after = page.run(SAID)
    assert after["accuracy-depth-4"]["finding"].startswith("GSM8K, at best: LA 50.0%")
    assert after["accuracy-depth-4"]["caption"].endswith("Shown: GSM8K.")
    assert after["accuracy-depth-4"]["panels"][0][1].startswith("Shown: GSM8K. Accuracy on GSM8K")
    assert after["ratio-map"]["finding"].startswith("Of the whole figure: Of 8 cells")
    assert "stays the study’s answer" in after["answer"]["caption"]
    others = [said for name, said in after.items() if name.startswith(("accuracy-", "loss-"))]
    assert all("verage" not in f"{said['title']}{said['finding']}" for said in others)


def test_what_a_figure_says_follows_the_chosen_axis(page: Browser) -> None:
    page.draw_all()
    words = ("against training tokens", "against tokens")
    before = json.dumps(page.run(SAID))
    assert any(text in before for text in words)
    choose(page, axis="flops")
    after = page.run(SAID)
    answer = after.pop("answer")
    assert not any(text in json.dumps(after) for text in words)
    assert "against training FLOPs" in after["accuracy-depth-4"]["panels"][0][1]
    assert "against training tokens" in answer["panels"][0][1], "an answer is of tokens"
    headings = page.run(
        "[...document.querySelectorAll('h2, h3, nav a')].map((one) => one.textContent)"
    )
    assert not [heading for heading in headings if "against tokens" in heading.lower()]


def test_what_a_figure_says_follows_models_and_depths(page: Browser) -> None:
    choose(page, DR="", depth="4")
    said = page.run(SAID)
    assert said["accuracy-depth-4"]["finding"].startswith("Of all models: Average, at best: LA")
    assert said["accuracy-depth-4"]["caption"].endswith("Shown: LA and DR+DA.")
    assert said["token-ratios"]["caption"].endswith("Shown: DR+DA; Depth 4.")
    assert "depth 2" not in json.dumps(said["depth-attention"]).lower()


def test_a_caption_says_nothing_of_seeds_and_weights_that_are_not_shown(page: Browser) -> None:
    folder = Path(theme.__file__).parent
    script = "".join((folder / f"{name}.js").read_text() for name in ("choice", "words"))
    caption = (
        "Each marker is a checkpoint. Bands are intervals. Models of fewer than 4 seeds have their"
        " seeds as thin lines. Dotted coloured lines are the raw weights, the others the EMA"
        " weights. The dotted line is chance."
    )
    ask = f"captionOf({{ dataset: {{ figure: 'one' }} }}, {json.dumps(caption)})"
    said = page.run(f"""(() => {{ {script}
        const found = [{ask}];
        for (const chosen of [{{ seeds: false, weights: "averaged" }}, {{ weights: "raw" }}])
            found.push((Object.assign(choice, WHOLE, chosen), {ask}));
        return found;
    }})()""")
    assert said[0] == caption
    assert said[1] == "Each marker is a checkpoint. Bands are intervals. The dotted line is chance."
    assert "seeds as thin lines. Lines are the raw weights. The dotted" in said[2]


def test_a_saved_drawing_says_what_the_page_says(page: Browser) -> None:
    slide(page, 0.5)
    choose(page, task="gsm8k", axis="flops", DR="")
    said = page.run(SAID)
    drawn = of_files(page, "svg", "await file.text()")
    for name, svg in drawn.items():
        texts = [html.unescape(text) for text in re.findall(r">([^<]+)<", svg)]
        saved = " ".join(texts)
        lines = f"{said[name]['finding']} {said[name]['caption']}".split()
        assert [word for word in lines if word not in saved.split()] == [], name
    assert "Tokens to " in drawn["answer"], "as the slider stands"
    assert "training tokens" not in drawn["accuracy-depth-4"]


def test_long_names_are_shown_apart_everywhere_and_told_whole(
    chromium: Browser, tmp_path: Path
) -> None:
    """Each name differs from the others in its middle."""
    names = [f"transformer-matched-{kind}-rate-searched-averaged" for kind in ("DR", "DA", "tiny")]
    right = dict(zip(["LA", *names], RIGHT.values(), strict=True))
    tables = whole_study(tmp_path / "results.duckdb", right)
    chromium.size(1280, 800)
    chromium.open(write_report(tables, STUDY, tmp_path / "report", papers=False).as_uri())
    chromium.draw_all()
    shown = list(short_names(names).shown.values())
    assert len(set(shown)) == len(names)
    for part in ("table tbody th", ".legend li", ".toolbar label[data-variant]"):
        texts = f"[...document.querySelectorAll('{part}')].map((one) => one.textContent.trim())"
        assert set(chromium.run(texts)) >= set(shown), part
        assert not set(chromium.run(texts)) & set(names), part
    told = "[...document.querySelectorAll('.role-axis-label title')].map((one) => one.textContent)"
    assert set(chromium.run(told)) >= set(names)
    titles = "[...document.querySelectorAll('table tbody th [title]')].map((one) => one.title)"
    assert set(chromium.run(titles)) == set(names)
    # what the page's script writes is as what the template writes
    choose(chromium, **{names[0]: ""})
    caption = "document.querySelector('#figure-accuracy-depth-4 .caption')"
    assert chromium.run(f"{caption}.textContent").endswith(f"Shown: LA, {shown[1]} and {shown[2]}.")
    assert chromium.run(f"{caption}.title").endswith(f"Shown: LA, {names[1]} and {names[2]}.")


def test_names_that_every_object_of_javascript_has_are_drawn(
    chromium: Browser, tmp_path: Path
) -> None:
    """Vega keeps groups by name in plain objects, where such a name has a value already."""
    counts = []
    for number, names in enumerate(
        (["alpha", "beta", "gamma"], ["constructor", "__proto__", "toString"])
    ):
        right = dict(zip(["LA", *names], [RIGHT["LA"], *[RIGHT["DR"]] * 3], strict=True))
        database = whole_study(tmp_path / f"{number}.duckdb", right, depths=(4,))
        page = write_report(database, STUDY, tmp_path / str(number), papers=False)
        chromium.open(page.as_uri())
        chromium.draw_all()
        counts.append(chromium.run(PLOTS))
    assert counts[0] == counts[1]
    assert all(counts[0])
