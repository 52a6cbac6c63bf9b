"""Class mode, taught with as a teacher would: by keys, on a large screen, and left again."""

import json
import re

from demo.lesson.text import STEPS
from tests.browser.conftest import keep_picture
from tests.browser.driving import (
    HIDDEN,
    LANE,
    PLAIN,
    STORY,
    TEXT,
    TREE,
    choose,
    headline,
    press,
    run,
)

SHOWN_AGAIN = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))"
SIZE = "one => parseFloat(getComputedStyle(one).fontSize)"
LINES = "JSON.parse(sessionStorage.getItem('moa-run')).lines.drafter"
LETTERS = """all => all.map(
  (one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"""


def ran(page):
    """Names in the table of runs, each with its four figures."""
    rows = page.locator(".runs tr:has(td)").all_inner_texts()
    assert all(len(row.split("\t")) == 5 for row in rows)
    return [row.split("\t")[0] for row in rows]


def test_in_class_there_is_what_a_lesson_needs(open_page):
    page = open_page("?class=1")
    for place in (TREE, LANE):
        assert page.locator(place).first.is_visible(), place
    # The first step has a tree to ask about.
    for place in ("#prompt textarea", "#run", "#method", "#tli", "[role=tab]", "#cut"):
        assert not page.locator(place).first.is_visible(), place
    steps = page.locator(".class-steps > div")
    assert steps.inner_text().startswith("1 of 8, Drafting.")
    page.wait_for_selector(f"{TREE}[data-phase=drafted]")  # the tree answers the question
    caption = page.inner_text(f"{TREE} .caption")
    assert "accepted" not in caption and "right" not in caption
    after = [f"{LANE} .cycle.asked .accepted"]  # the words would answer it, too
    assert not any(page.locator(place).first.is_visible() for place in after)
    press(page, "Show answer")
    for words in (STEPS[0].task, STEPS[0].question, STEPS[0].answer):
        assert words in steps.inner_text()
    assert re.search(r"^Here, at most [1-9]\d?\. ", page.inner_text(".class-steps .answer"))
    assert page.locator(f"{TREE}[data-phase=drafted]").count()  # the check has a button of its own
    press(page, "Hide answer")
    press(page, "Show this cycle slowly")
    page.wait_for_selector(f"{TREE}[data-phase=kept]")
    assert all(page.locator(place).first.is_visible() for place in after)
    for step in STEPS[1:]:  # as a clicker does
        page.keyboard.press("PageDown")
        assert step.question in steps.inner_text()
        assert page.evaluate(HIDDEN, ["#prompt textarea", "#run", "#stop"]) == []
        assert page.locator(PLAIN).is_visible() == (step.id == "lossless")
        assert page.locator("#tli").is_visible() == (step.id == "tli")  # it asks for an N
        assert page.locator("#method").is_visible() == (step.id in ("observing", "tli"))
        # The result, which the first steps do not give away.
        told = step.id not in ("verifying", "alone", "training")
        assert page.locator("#view .headline").is_visible() == told
        assert page.locator(f"{LANE} .state").is_visible() == (step.id != "verifying")
        if page.locator(".class-picture svg").is_visible():
            letters = page.locator(".class-picture text").evaluate_all(LETTERS)
            assert min(letters) > page.locator(".class-steps small").evaluate(SIZE)
        if step.id == "observing":
            for method in ("EAGLE-2", "MoA"):
                choose(page, method)
                run(page)
            assert ran(page) == ["EAGLE-2", "MoA"]
            press(page, "Show answer")  # with a recording of them
            assert ran(page) == ["EAGLE-2", "MoA"] * 2
            assert page.evaluate(HIDDEN, [".runs"]) == []
            press(page, "Hide answer")
        if step.id == "training":
            assert page.inner_text(".levels") == "Press Run: the counts come here."
            run(page)
            counts = [one.split(" of ") for one in page.locator(".levels b").all_inner_texts()]
            right = [int(one) for one, _ in counts]
            assert len(right) == 5 and right[0] > 0 and right == sorted(right, reverse=True)
            rows = right[0], counts[0][1], right[2]
            cycles = re.search(r"\+ (\d+) cycles", page.inner_text(".pacer .count"))
            assert {all_of for _, all_of in counts} == {f"{cycles[1]} calls"}
        if step.id == "tli":
            for tli, end in enumerate(("Home", "End")):
                page.press("#tli input[type=range]", end)
                page.wait_for_selector(f".class-picture svg:has-text('What N = {tli} means')")
                run(page)
            assert ran(page) == ["MoA N=0", "MoA N=1"]
            kept = page.evaluate("JSON.parse(sessionStorage.getItem('moa-run')).traces.drafter")
            assert json.loads(kept)["about"]["settings"]["tree"]["budget"] == 5  # for every N
        if step.id == "alone":
            page.click("#cut")
            assert page.inner_text("#cut") == "Cancel the cut"  # it goes with its step
    press(page, "Next step →")
    assert not page.locator(".class-picture li").count()  # they are the answer
    page.wait_for_selector("#stage[data-run=recorded]")  # the run was of another drafter
    page.wait_for_selector("#tli-stops:has-text('N = 0')", state="attached")
    run(page)
    press(page, "Show answer")
    page.wait_for_function("() => !(" + HIDDEN + ")(['#charts .about']).length")
    words = [headline(page), page.inner_text("#view .costs")]
    *told, other = page.locator(".class-picture li").all_inner_texts()
    assert other.startswith("The recording has other times: ")
    wrong, *ahead, saved, costs, rival = told
    assert rival.startswith("In the recording, MoA N=0 against EAGLE-2: ")
    right = page.locator(f"{TEXT} .accepted").count()
    kept = [len(line["tree"]["path"]) for line in page.evaluate(LINES) if line.get("tree")]
    first, three = (sum(count >= level for count in kept) for level in (1, 3))
    [ahead] = ahead  # of this run, if its trees were deep, else of the step with rows of guesses
    if ahead.startswith("In your rows of guesses: "):
        first, calls, three = rows
    else:
        calls = f"{len(kept)} calls"
    assert ahead.endswith(f"right in {first} of {calls}, the next three all right in {three}.")
    assert f": {right} of " in wrong and words[0].startswith(saved[:-1])
    assert costs == words[1] and page.get_by_role("button", name="Next step →").is_disabled()
    run(page)
    saved = page.locator(".class-picture li").nth(2).inner_text()
    assert headline(page).startswith(saved[:-1])  # of the newest run
    press(page, "Back")
    assert page.locator(".class-picture svg").is_visible()
    page.evaluate(SHOWN_AGAIN)  # as Back does where the browser has kept the page
    assert steps.inner_text().startswith("1 of 8")
    press(page, "Next step →")
    assert page.evaluate(HIDDEN, ["#run", LANE, TREE]) == []
    kept = [len(line["tree"]["path"]) for line in page.evaluate(LINES) if line.get("tree")]
    fewest = min(kept)
    assert f": {fewest} accepted" in page.inner_text(f"{TREE} .caption")  # it asks for such a call
    sizes = [page.locator(place).evaluate(SIZE) for place in (".class-steps p", TEXT)]
    assert sizes[0] == sizes[1] > 20
    tree, wide = (page.locator(place).bounding_box() for place in (TREE, "#view"))
    assert tree["height"] > 0.45 * wide["height"]
    keep_picture(page, "class")
    page.set_viewport_size({"width": 390, "height": 844})
    leave = page.get_by_role("link", name="Exit class mode")
    slowly = "[aria-label='Show this cycle slowly']"  # what step 1 asks to press
    assert page.evaluate(HIDDEN, [".class-steps a", slowly, f"{TREE} .node"]) == []
    assert leave.bounding_box()["x"] + leave.bounding_box()["width"] <= 390
    for _ in range(5):
        page.keyboard.press("PageDown")
    page.press("#tli input[type=range]", "End")
    run(page)
    page.keyboard.press("PageDown")  # which shows the recording
    leave.click()
    page.wait_for_selector("#tli-stops:has-text('N = 1')")  # that of the run, which is there
    page.wait_for_selector(f"{LANE}[data-state=done]")
    page.wait_for_selector("#view .headline:not(.before)")  # the settings have not changed
    run(page, STORY)
    page.get_by_role("link", name="Class mode").click()  # a lesson opens with the recording
    page.wait_for_selector(
        f"#stage[data-run=recorded] {LANE.removeprefix('#view ')}[data-state=done]"
    )
    assert page.locator("#prompt textarea").input_value() != STORY  # and with its prompt
    for number, _ in enumerate(STEPS, start=1):
        page.wait_for_selector(f".class-steps > div:has-text('{number} of 8')")
        page.keyboard.press("PageDown")
    page.wait_for_url("**#8")
    page.evaluate("location.hash = '#2'")
    page.reload()
    page.wait_for_selector(f"{TREE}[data-phase=kept]")
    opened = page.inner_text(f"{TREE} .caption")
    press(page, "Back")
    press(page, "Next step →")
    assert page.inner_text(f"{TREE} .caption") == opened  # that with the fewest, here too
    page.evaluate("location.hash = '#8'")
    page.reload()
    page.wait_for_selector(".class-steps > div:has-text('8 of 8')")  # it goes on with its step
    page.wait_for_selector(f"{LANE}[data-state=done]")
    press(page, "Show answer")  # also tells the rival's figures, where both were measured
    assert "Against EAGLE-2: " in page.locator(".class-picture li").last.inner_text()
    for _ in range(4):
        press(page, "Back")
    press(page, "✂ Cut the connection")
    page.click("#run")
    page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth=5")
    press(page, "Restore the connection")
    page.wait_for_selector("#view .headline:has-text(' written alone, the target kept ')")
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.locator("#view .pacer").bounding_box()["height"] < 60  # its key has one row
    press(page, "Next step →")  # other steps are about a run without a cut
    page.wait_for_selector("#stage[data-run=recorded]")
    for _ in range(3):
        page.keyboard.press("PageDown")
    press(page, "Show answer")  # the last says what the cut did
    assert "written alone" in page.locator(".class-picture li").nth(-2).inner_text()
    for _ in range(4):
        press(page, "Back")
    press(page, "✂ Cut the connection")
    page.click("#run")
    press(page, "Next step →")  # before the cut: it would go on unseen
    page.wait_for_selector("#stage[data-run=recorded]")
    press(page, "Next step →")
    run(page)  # rows of five guesses
    for _ in range(2):
        page.keyboard.press("PageDown")
    press(page, "Show answer")
    told = page.locator(".class-picture li").nth(1).inner_text()
    assert told.startswith("In your rows of guesses: far ahead, ")
