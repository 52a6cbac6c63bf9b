"""A soak says what went wrong, and only then."""

import pytest

from tests.soak.report import grown, growth, printed, report
from tests.soak.tally import Tally


def samples(*mb):
    return [{"at": at, "app": {"mb": one}, "server": None} for at, one in enumerate(mb)]


def test_growth_is_that_of_medians_after_the_first_third():
    rising = samples(*[10] * 30, *[100] * 20, *[500], *[100] * 19, *[106] * 20)
    found = growth(rising, "app")
    assert found == {"first": 100, "last": 106, "peak": 500, "growth": 0.06}
    assert grown({"app": found}) == ["app: memory grew by 6.0%, 100 to 106 MB"]
    assert not grown({"app": growth(samples(*[10] * 30, *[100] * 60), "app")})
    assert growth(rising, "server")["growth"] == 0


@pytest.mark.parametrize(
    ("sentence", "meant"),
    [
        ("The prompt is empty: write something for the model to go on from.", True),
        ("Something went wrong in the program, not in what you wrote; see its log.", False),
        ("'NoneType' object has no attribute 'waits'", False),
        ("There is no server at ws://127.0.0.1:1: refused", True),
        ("There is no server at ws://elsewhere:1: refused", False),
    ],
)
def test_only_intended_sentences_may_be_said(sentence, meant):
    tally = Tally()
    tally.said(sentence, "somebody")
    assert bool(tally.trouble) is not meant and sum(tally.sentences.values()) == meant


def test_two_texts_of_one_prompt_are_trouble():
    tally = Tally()
    for text in ("a fox", "a fox", "an ox"):
        tally.wrote(("a prompt", "16"), text, "somebody")
    [told] = tally.trouble
    assert "a fox" in told and "an ox" in told
    tally.did("a run")
    tally.waited("a run", 2.0)
    words = printed(report(tally, samples(1, 1, 1), {"trouble": tally.trouble}))
    assert "1 THINGS WENT WRONG" in words and "2.0 slowest" in words
