"""What is said of a link: while it is lost, when it is back, at the end, and of recordings."""

from demo.network.recorded import NONE, recorded, records_html
from demo.network.switch import STATES, Switch, press, switch
from demo.network.words import Words, summary
from moa_core.bench.records import write
from moa_core.decoding.trace import LinkBack, LinkDown
from moa_core.link.emulator import Link, LinkSettings
from tests.demo.network.lost_links import begun, gone, healed, kept, trace


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


def test_the_summary_has_the_figures_and_what_became_of_offline_tokens():
    words = summary(trace(healed))
    assert words.startswith("6 tokens in 4 server calls, the first after 200 ms, then ")
    assert words.endswith("stopped at the token limit. 2 offline tokens confirmed, 3 changed.")
    words = summary(trace(gone))
    assert "ended as the link stayed lost. The last 2 offline tokens: not verified" in words


def test_the_button_cuts_and_restores_the_visitors_own_link_alone():
    link, other = Switch(Link(LinkSettings())), Switch(Link(LinkSettings()))
    assert link.switch["state"] == "up"
    assert press(link)["state"] == "cut" and other.switch["state"] == "up"
    assert link.link.is_cut and not other.link.is_cut
    link.lost = True  # the client has noticed
    assert link.switch["state"] == "lost"
    assert press(link)["state"] == "mended"
    link.lost = False
    assert link.switch == switch("up") and not link.link.is_cut


def test_without_a_run_there_is_nothing_to_cut():
    assert press(None) == {"state": "idle", "words": STATES["idle"]}


def test_a_cut_by_itself_is_restored_by_itself_or_by_hand():
    link = Switch(Link(LinkSettings()))
    link.cut_for(0.01)
    assert link.changed() and not link.changed()
    link._timer.join()
    assert link.changed() and link.switch["state"] == "up"
    link.cut_for(1000)
    press(link)
    link._timer.join(1)
    assert not link._timer.is_alive() and not link.link.is_cut
    link.close()


def test_recordings_are_named_with_their_commands_and_damaged_ones_are_none(tmp_path):
    assert recorded(tmp_path) == {} and records_html({}) == NONE
    one = {"version": 1, "kind": "offline", "date": "2026-11-20", "command": "a <b>", "rows": []}
    write(one, tmp_path / "cut.json")
    shown = records_html(recorded(tmp_path))
    assert "<b>cut</b>: offline, 2026-11-20" in shown and "a &lt;b&gt;" in shown
    assert "API streaming has no drafter" in shown
    (tmp_path / "cut.json").write_text("{}")
    assert recorded(tmp_path) == {}
