"""What is said of a link: while it is lost, and when it is back."""

from demo.live.words import Words
from moa_core.decoding.trace import LinkBack, LinkDown
from tests.demo.network.lost_links import begun, gone, healed, kept


def said(events, able=True):
    """The different sentences of a run, in order."""
    words, found = Words(able, 60), []
    for event in events:
        words.add(event)
        if not found or found[-1] != words.now:
            found.append(words.now)
    return found


def test_a_loss_is_told_from_beginning_to_end():
    assert said(healed()) == [
        "",
        "The link is lost: the drafter goes on alone.",
        "The link is back. What was written offline goes to the target.",
        "The link is back: 2 offline tokens confirmed, 3 changed.",
    ]


def test_text_that_stays_is_said_not_to_be_the_targets():
    *_, last = said(kept())
    assert (
        last == "The link is back: 3 offline tokens kept; they are the drafter’s, not the target’s."
    )


def test_without_a_drafter_nothing_goes_on():
    words = said(gone(), able=False)[-1]
    assert words.startswith("The link is lost: ") and "nothing goes on" in words and "60 s" in words


def test_before_the_drafter_has_read_the_prompt_it_cannot_go_on():
    events = [*list(begun())[:1], LinkDown(1.0), LinkBack(2.0, 0), *list(begun())[1:]]
    _, down, back = said(events)
    assert "before the drafter could read the prompt" in down and back == "The link is back."
