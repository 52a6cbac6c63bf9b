"""How it works: every step is whole, its example is real, and its answer opens by keyboard."""

import pytest

from demo.lesson.text import PROMPT, REFERENCES, STEPS
from tests.browser.conftest import HOSTILE, LOOKS, both_themes, keep_picture
from tests.browser.driving import can_be_read, fits

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tab=how", "#how-draft-run:not([disabled])"
MINE = "Tell me a story & more."
HAS = "([box, text]) => document.querySelector(box)?.value === text"
ROWS = """name => [...document.querySelectorAll(`#how-${name}-result tbody tr`)].map(row => ({
  ...row.dataset, words: row.cells[0].textContent,
}))"""


def run(page, name):
    """Run a step's example; its rows."""
    page.click(f"#how-{name}-run")
    page.wait_for_selector(f"#how-{name}-result table")
    page.wait_for_selector(f"#how-{name}-run:not([disabled])")
    return page.evaluate(ROWS, name)


def test_every_step_has_its_parts(tab):
    page = tab()
    check_references(page)
    rows = run(page, "verify")
    assert {row["state"] for row in rows} == {"root", "accepted", "rejected", "bonus"}
    check_steps(page)
    tree = "#how-verify-result .how-tree"
    states = [f"{tree} .{state} {cell}" for state in ("accepted", "rejected", "bonus")
              for cell in ("samp", "td:last-child")]  # fmt: skip
    check_themes(page, *states, f"{tree} caption", ".how-today", ".how-link", ".how-number")
    width, height, _ = LOOKS[-1]
    page.set_viewport_size({"width": width, "height": height})
    check_steps(page)
    assert fits(page)
    check_themes(page)
    check_answers(page)


def check_themes(page, *places):
    for _ in both_themes(page):
        assert can_be_read(page, *places)
        keep_picture(page, "how")


def check_steps(page):
    """Title, drawing with a name, example: every step has them."""
    for number, step in enumerate(STEPS, 1):
        box = page.locator(f"#how-{step.id}")
        assert box.locator("h2").inner_text().split() == [str(number), *step.title.split()]
        [picture] = box.get_by_role("img").all()
        name = picture.locator("title").text_content()
        assert page.get_by_role("img", name=name, exact=True).count() == 1
        assert picture.bounding_box()["width"] > 250
        assert box.locator("a.how-link").count() == len(step.links)
        assert box.locator("button.primary").count() == bool(step.trial)


def check_answers(page):
    """Hidden until the question is opened, by keyboard as well."""
    for step in STEPS:
        question = page.locator(f"#how-{step.id} .how-question")
        answer = question.get_by_text(step.answer)
        assert not answer.is_visible()
        question.locator("summary").focus()
        page.keyboard.press("Enter")
        answer.wait_for()
        page.keyboard.press("Enter")
        answer.wait_for(state="hidden")


def test_the_examples_are_real_and_links_lead_to_the_live_tab(tab):
    page = tab()
    drafted, verified, chain = (run(page, name) for name in ("draft", "verify", "alone"))
    check_walk(page, verified)
    check_same_tree(drafted, verified)
    check_chain(chain[1:])
    # The target of these tests says hostile things; they are shown as they are.
    words = "".join(row["words"] for row in (*drafted, *verified, *chain))
    words += page.inner_text("#how-alone-result")
    assert any(hostile in words for hostile in HOSTILE)
    assert page.locator(".how-tree b").count() == 0
    page.fill("#how-prompt textarea, #how-prompt input", "  ")
    page.click("#how-draft-run")
    page.wait_for_selector("#how-draft-status .status-line:has-text('empty')")
    assert page.evaluate(ROWS, "draft") == drafted
    follow_a_link(page)


def follow_a_link(page):
    """It leads to the Live tab with its settings and the page's prompt, and runs them: once."""
    page.fill("#how-prompt textarea, #how-prompt input", MINE)
    link = next(step for step in STEPS if step.id == "lossless").links[0]
    page.get_by_role("link", name=link.words, exact=True).click()
    page.wait_for_selector("#stage[data-run=done]")
    assert page.input_value("#prompt textarea") == MINE
    assert "tab=live" in page.url and "method=moa-n1" in page.url
    assert "MoA N=1" in page.inner_text("#view .said")
    page.reload()
    page.wait_for_selector("#machine .status-line:has-text('Target tiny')")
    page.wait_for_function(HAS, arg=["#prompt textarea", MINE])
    page.wait_for_timeout(300)
    assert page.get_attribute("#stage", "data-run") == "recorded"  # nothing was run


def test_a_link_into_another_tab_runs_there_and_its_address_alone_does_not(tab, open_page):
    page = tab()
    run(page, "draft")
    link = next(step for step in STEPS if step.id == "tli").links[0]
    page.get_by_role("link", name=link.words, exact=True).click()
    page.wait_for_selector("#sweep-verdict:has-text('Fastest')")
    assert "tab=tli" in page.url
    other = open_page(link.address, ready="#sweep-run:not([disabled])")
    other.wait_for_function(HAS, arg=["#sweep-prompt textarea", PROMPT])
    other.wait_for_timeout(300)
    assert other.locator("#sweep-stop").is_disabled()


def check_walk(page, rows):
    """From the root, the accepted path is the target's choices, and so is the bonus."""
    nodes = {row["node"]: row for row in rows if "node" in row}
    [bonus] = [row for row in rows if row["state"] == "bonus"]
    here, gained = nodes["0"], 1
    while True:
        below = [row for row in nodes.values() if row["parent"] == here["node"]]
        agreed = [row for row in below if row["token"] == here["choice"]]
        assert [row["state"] for row in agreed] == ["accepted"] * len(agreed)
        if not agreed:
            break
        [here], gained = agreed, gained + 1
    assert gained > 1 and bonus["token"] == here["choice"]
    assert sum(row["state"] == "accepted" for row in rows) == gained - 1
    words = page.inner_text("#how-verify-result .how-said")
    assert f"{gained} tokens gained by one target forward" in words


def check_same_tree(drafted, verified):
    """The drafted tree is the one that is verified, and no path gains by growing."""
    nodes = [(row["node"], row["parent"], row["token"]) for row in drafted]
    assert nodes == [
        (row["node"], row["parent"], row["token"]) for row in verified if "node" in row
    ]
    paths = {row["node"]: float(row["path"]) for row in drafted}
    for row in drafted[1:]:
        assert paths[row["node"]] <= paths[row["parent"]]


def check_chain(chain):
    """It says where the target departs."""
    assert len(chain) == 12
    same = [row["token"] == row["choice"] for row in chain]
    first = same.index(False) if False in same else len(same)
    assert [row["state"] for row in chain[:first]] == ["accepted"] * first
    assert all(row["state"] == ("later" if same[at] else "rejected")
               for at, row in enumerate(chain) if at >= first)  # fmt: skip


def check_references(page):
    """They open elsewhere."""
    links = page.locator(".how-references a")
    assert links.count() == len(REFERENCES)
    for link in links.all():
        assert link.get_attribute("target") == "_blank"
        assert link.get_attribute("rel") == "noopener"
        assert link.get_attribute("href").startswith("https://arxiv.org/abs/")
    assert page.locator(".how-glossary dt").count() == page.locator(".how-glossary dd").count() > 15
