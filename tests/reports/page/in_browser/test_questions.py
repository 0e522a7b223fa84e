"""Questions with their answers are filtered, searched and opened."""

from __future__ import annotations

import gzip
import json

from tests.reports.browser import Browser
from tests.reports.page.in_browser.helpers import (
    AXE,
    in_browser,
)

pytestmark = in_browser

QUESTIONS = """[...document.querySelectorAll('#examples tr[data-item]')].filter((row) => row.checkVisibility())
    .map((row) => row.dataset.item)"""

SHOWN_ITEM = """(() => {
    const dialog = document.querySelector('dialog.item');
    return dialog.open ? [dialog.querySelector('h3').textContent, dialog.querySelector('.item-content').textContent] : null;
})()"""


def test_examples_are_filtered_by_who_is_right_and_the_address_keeps_the_choice(
    page: Browser,
) -> None:
    left = """[...document.querySelectorAll('#examples tr[data-item]')].filter((row) => row.checkVisibility())
        .map((row) => row.cells[0].textContent)"""
    count = "document.querySelector('.filter output').textContent"
    assert page.run(left) == [], "folded until asked for"
    assert page.run(count) == "6 of 6 shown"
    page.run("""(() => {
        const [better, worse] = ['better', 'worse'].map((name) => document.querySelector(`[name=${name}]`));
        [better.value, worse.value] = ['DR', 'LA'];
        worse.dispatchEvent(new Event('input', { bubbles: true }));
    })()""")
    assert page.run(left) == ["25 + <b>1</b>?"] * 2, "of both depths"
    assert page.run(count) == "2 of 6 shown"
    page.open(page.run("location.href"))
    assert page.run(left) == ["25 + <b>1</b>?"] * 2
    assert page.run("location.search") == "?better=DR&worse=LA"
    page.run("document.querySelector('.toolbar button').click()")
    page.settle()
    assert page.run(count) == "6 of 6 shown"
    assert page.run("location.search") == ""


def set_filter(page: Browser, **values: str) -> None:
    for name, value in values.items():
        page.run(f"""(() => {{
            const control = document.querySelector('.filter [name={name}]');
            control.value = {json.dumps(value)};
            control.dispatchEvent(new Event('input', {{ bubbles: true }}));
        }})()""")


def press(page: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
        code = {"Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowLeft": 37}[key]
        page.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)


def test_answers_are_searched_and_put_in_order_and_the_address_keeps_both(page: Browser) -> None:
    set_filter(page, search="25 + <B>1")
    assert page.run(QUESTIONS) == ["2:gsm8k/25", "4:gsm8k/25"]
    set_filter(page, search="", order="most")
    page.run("document.querySelectorAll('#examples details').forEach((one) => { one.open = true })")
    before = page.run(QUESTIONS)
    set_filter(page, order="fewest", search="gsm8k")
    after = page.run(QUESTIONS)
    assert sorted(after) == sorted(before)
    assert after != before
    page.open(page.run("location.href"))
    assert page.run(QUESTIONS) == after
    assert page.run("location.search") == "?order=fewest&search=gsm8k"
    page.run("document.querySelector('.toolbar button').click()")
    page.settle()
    assert page.run("document.querySelector('.filter output').textContent") == "6 of 6 shown"


def test_one_question_opens_by_keys_and_by_its_address(page: Browser) -> None:
    page.run("document.querySelectorAll('#examples details').forEach((one) => { one.open = true })")
    page.run("document.querySelector('#examples button.question').focus()")
    press(page, "Enter")
    heading, content = page.run(SHOWN_ITEM)
    items = page.run(QUESTIONS)
    assert heading == f"GSM8K, question {items[0].split('/')[1]}, depth 2"
    assert all(word in content for word in ("LA", "DR", "DR+DA", "Right answer", "1M", "16M"))
    press(page, "ArrowRight")
    assert page.run(SHOWN_ITEM)[0] == f"GSM8K, question {items[1].split('/')[1]}, depth 2"
    address = page.run("location.href")
    press(page, "Escape")
    assert page.run(SHOWN_ITEM) is None
    page.wait("location.search === ''")  # a dialog tells a moment later that it is closed
    assert page.run("document.activeElement.closest('tr').dataset.item") == items[1]
    page.open(address)
    page.wait(f"{SHOWN_ITEM} !== null")
    assert page.run(SHOWN_ITEM)[0] == f"GSM8K, question {items[1].split('/')[1]}, depth 2"
    page.run(gzip.decompress(AXE.read_bytes()).decode())
    found = page.run("axe.run('dialog.item').then((result) => result.violations.map(({id}) => id))")
    assert found == []
    page.size(390, 844, phone=True)
    assert page.run("document.documentElement.scrollWidth") <= 390
