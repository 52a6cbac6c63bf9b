"""How it works: every step is whole, its example is real, and its answer opens by keyboard."""

from demo.lesson.text import STEPS
from tests.browser.conftest import HOSTILE, every_look, keep_picture
from tests.browser.driving import SCROLLS, can_be_read

ADDRESS, READY = "?tab=how", "#how-draft-run:not([disabled])"
# Rows of a root, its two guesses, of which the less probable one is kept, and the bonus.
ROWS = """async (blind) => {
  const { arrange } = await import("/demo/common/tree/tree.js");
  const cycle = { tokens: [0, 1, 2], parents: [-1, 0, 0], draft: [0, 90, 10], sure: [50, 50, 50] };
  const { nodes } = arrange({ ...cycle, path: [2], blind, emitted: 2, bonus: 3 });
  return nodes.map((node) => node.row);
}"""
NODES = """name => [...document.querySelectorAll(`#how-${name}-result .node`)].map(node => ({
  kind: node.dataset.node, index: Number(node.dataset.index),
  words: node.querySelector('text').textContent, place: node.getAttribute("transform"),
}))"""


BEGUN = "draft", "verify"
BESIDE = ".how-lead", "#how-draft-result"


def run(page, name):
    page.click(f"#how-{name}-run")
    page.wait_for_selector(f"#how-{name}-status .status-line:has-text('of your run')")
    page.wait_for_selector(f"#how-{name}-run:not([disabled])")
    return page.evaluate(NODES, name)


def test_the_examples_are_real_and_say_what_they_draw(page):
    # Before anything was run, both are of one cycle of the recorded run.
    recorded = [[node["words"] for node in page.evaluate(NODES, name)] for name in BEGUN]
    assert recorded[0] == recorded[1] and len(recorded[0]) > 2
    drafted = run(page, "draft")
    after = [[node["words"] for node in page.evaluate(NODES, name)] for name in BEGUN]
    assert after[0] == after[1] != recorded[0]
    assert page.get_attribute("#how-verify-result .draft-tree", "data-phase") == "drafted"
    assert page.inner_text("#how-verify-status").startswith("This tree is not checked yet")
    verified = run(page, "verify")
    for same in ("words", "place"):  # only the verdict is new
        assert [node[same] for node in drafted] == [node[same] for node in verified]
    assert page.evaluate(ROWS, False) == [0, 1, 0, 0]  # what is kept is the top row,
    assert page.evaluate(ROWS, True) == [0, 0, 1, 1]  # unless that would give it away
    accepted = sum(node["kind"] == "accepted" for node in verified)
    assert page.inner_text("#how-verify-status").startswith("Just done. Shown: cycle ")
    said = page.inner_text("#how-verify-result .how-said")
    assert f"{accepted} of {len(verified) - 2} guesses accepted" in said
    assert [node["kind"] for node in verified].count("bonus") == 1
    bonus = page.locator("#how-draft-result .node.bonus > g")
    assert bonus.evaluate("one => getComputedStyle(one).opacity") == "0"  # not yet checked
    # The target of these tests says hostile things; they are shown as they are.
    words = page.text_content("#how-verify-result .draft-tree")
    assert any(hostile in words for hostile in HOSTILE)
    assert page.locator(".how-tree b").count() == 0
    page.fill("#how-prompt :is(textarea, input)", "  ")
    page.click("#how-draft-run")
    page.wait_for_selector("#how-draft-status .status-line:has-text('empty')")
    assert page.evaluate(NODES, "draft") == drafted


def test_every_step_has_its_parts(page):
    for _ in every_look(page):
        narrow = page.viewport_size["width"] < 900
        lead, tree = (page.locator(f"#how-drafting {place}").bounding_box() for place in BESIDE)
        assert (tree["y"] < lead["y"]) != narrow and (lead["x"] < tree["x"]) != narrow
        assert not page.locator(".how-tree .draft-tree:visible").evaluate_all(SCROLLS)
        for number, step in enumerate(STEPS, 1):
            box = page.locator(f"#how-{step.id}")
            assert box.locator("h2").inner_text().split() == [str(number), *step.title.split()]
            assert box.locator("svg[role=img]:visible").first.bounding_box()["width"] > 250
            assert box.locator("a.how-link").count() == len(step.links)
            assert box.locator("button.primary").count() == bool(step.trial)
        assert can_be_read(page, ".how-body", ".how-link", ".how-number", ".how-said")
        keep_picture(page, "how")
    for step in STEPS:
        question = page.locator(f"#how-{step.id} .how-question")
        answer = question.get_by_text(step.answer)
        assert not answer.is_visible()
        question.locator("summary").focus()
        page.keyboard.press("Enter")
        answer.wait_for()
        page.keyboard.press("Enter")
        answer.wait_for(state="hidden")


def test_a_tour_of_the_stage_from_any_tab_by_keyboard(page):
    page.get_by_role("button", name="60-second tour").click()
    card = page.get_by_role("dialog", name="Tour")
    card.wait_for()
    seen = []
    while card.count():
        seen.append(card.locator("p").inner_text())
        assert page.locator(".tour-here").count() == 1 and can_be_read(page, ".tour p")
        page.keyboard.press("Enter")  # Next has the focus
    assert len(set(seen)) == len(seen) > 5 and page.locator(".tour-here").count() == 0
    page.get_by_role("button", name="60-second tour").click()
    page.keyboard.press("Escape")
    assert not card.count()
