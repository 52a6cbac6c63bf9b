"""Settings of a link: presets with their sources, parsing, and figures that no link can have."""

import dataclasses
import math

import pytest

from moa_core.errors import UserError
from moa_core.link.emulator import DEFAULT, PRESETS, LinkSettings, link


def test_presets_each_with_its_source() -> None:
    assert DEFAULT in PRESETS
    for name, settings in PRESETS.items():
        assert link(name) is settings and settings.name == name
        assert settings.source.endswith(".") and len(settings.source) > 40
        # All but offline have a figure that no source states.
        assert ("our choice" in settings.source) is not settings.offline


def test_presets_carry_the_sources_figures() -> None:
    fourth = link("4g")
    assert (fourth.rtt_ms, fourth.down_mbps, fourth.up_mbps) == (60, 9, 1.5)
    assert (link("slow-4g").rtt_ms, link("slow-4g").up_mbps) == (150, 0.75)
    assert link("offline").offline and not fourth.offline


def test_names_are_taken_as_people_write_them() -> None:
    assert link("Slow_4G") is link(" slow 4g ") is PRESETS["slow-4g"]
    assert link("starlink") is PRESETS["satellite"]
    assert link(PRESETS["lan"]) is PRESETS["lan"]


def test_a_link_of_ones_own() -> None:
    settings = link("rtt=60, jitter=15,down=9,up=1.5,loss=0.01")
    assert settings == LinkSettings(60, 15, 9, 1.5, 0.01)
    assert settings.name == "custom" and "own choice" in settings.source


def test_a_preset_with_something_changed_says_so() -> None:
    settings = link("4g,loss=0.02,rtt=100")
    assert (settings.rtt_ms, settings.loss, settings.up_mbps) == (100, 0.02, 1.5)
    assert settings.name == "4g,loss=0.02,rtt=100"
    assert settings.source.startswith(PRESETS["4g"].source) and "by hand" in settings.source


@pytest.mark.parametrize("text", [*PRESETS, "rtt=0.1,down=1e3,up=0.123456789"])
def test_a_link_can_be_written_down_and_read_again(text: str) -> None:
    settings = link(text)
    again = link(settings.spec)
    if settings.offline:
        assert again.offline
        return
    named = {"name": settings.name, "source": settings.source}
    assert dataclasses.replace(again, **named) == settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("6g", "No link is called '6g'"),
        ("", "No link is called ''"),
        ("rtt=60,ping=3", "'ping=3'"),
        ("rtt=60,4g", "'4g'"),
        ("rtt=fast", "'fast'"),
        ("rtt=", "rtt of a link must be a number"),
        ("rtt=-1", "from 0 to 10000, not -1"),
        ("rtt=nan", "not nan"),
        ("down=0", "down of a link"),
        ("up=inf", "up of a link"),
        ("loss=1.5", "from 0 to 1"),
        ("rtt=1,rtt=2", "twice"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        link(text)
    assert said in str(caught.value)
    if "called" in said or "ping" in text:
        assert all(name in str(caught.value) for name in PRESETS)


@pytest.mark.parametrize("value", [math.nan, -1, "60", None, True])
def test_settings_check_themselves(value: object) -> None:
    with pytest.raises(UserError, match="rtt of a link"):
        LinkSettings(rtt_ms=value)  # type: ignore[arg-type]


def test_settings_in_words() -> None:
    assert str(link("4g")) == "4g: round trip 60 ms, ± 15; 9 Mbit/s down, 1.5 up"
    assert "1.5 % of packets lost" in str(link("satellite"))
    assert str(link("offline")) == "offline: nothing passes"
