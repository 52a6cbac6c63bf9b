"""Links by name, by one's own figures and from an address."""

from types import SimpleNamespace
from urllib.parse import parse_qsl

import pytest

from demo.network import settings as links
from moa_core.errors import UserError
from moa_core.link.emulator import PRESETS

FAR = SimpleNamespace(methods=lambda target="": ["moa-n1", "vanilla"])
ENGINE = SimpleNamespace(first="tiny", installed={"tiny": None})


def opened(**query):
    """What an address sets, by name, with what the status line says of it."""
    request = SimpleNamespace(query_params={"tab": "network"} | query)
    status, about, box, *values = links.from_address("network", FAR, ENGINE, request)
    found = {
        name: value for name, value in zip(links.LINKED, values, strict=True) if not is_skip(value)
    }
    return found, "" if is_skip(status) else status["text"], about, box


def is_skip(value):
    return isinstance(value, dict) and value.get("__type__") == "update" and len(value) == 1


def test_all_presets_are_there_each_with_its_source():
    choices = dict(links.choices())
    assert list(choices.values()) == [*PRESETS, links.CUSTOM] and len(choices) == len(PRESETS) + 1
    for one in PRESETS.values():
        words = links.about_html(one)
        assert links.called(one) in words and f"{one.source[-20:]}</p>" in words.replace(
            "&quot;", '"'
        ).replace("&#x27;", "'")


def test_ones_own_figures_make_a_link():
    values = {"rtt": 200, "jitter": 10, "down": 2.5, "up": 1, "loss": 1.5}
    one = links.chosen(links.CUSTOM, values)
    assert one.spec == "rtt=200,jitter=10,down=2.5,up=1,loss=0.015"
    assert links.parsed(one.spec) == (links.CUSTOM, values)


def test_a_preset_is_itself_whatever_the_sliders_show():
    assert links.chosen("satellite", links.sliders(PRESETS["satellite"])) is PRESETS["satellite"]
    assert links.sliders(PRESETS["5g"])["down"] == 309


def test_choosing_a_preset_sets_the_sliders_and_hides_them():
    about, box, *values = links.follow("slow-4g", *links.sliders().values())
    assert not box["visible"] and values == list(links.sliders(PRESETS["slow-4g"]).values())
    assert "150 ms" in about
    about, box, *values = links.follow(links.CUSTOM, *links.sliders().values())
    assert box["visible"] and all(map(is_skip, values)) and "Your own figures" in about


def test_an_address_sets_method_link_prompt_and_tokens():
    found, said, about, _ = opened(method="vanilla", link="slow-4g", prompt="Hi <b>", tokens="40")
    assert said == "" and "Slow 4G" in about
    assert found == {
        "method": "vanilla", "prompt": "Hi <b>", "tokens": 40, "link": "slow-4g",
        **links.sliders(PRESETS["slow-4g"]),
    }  # fmt: skip
    found, said, _, box = opened(link="4g,loss=0.02")
    assert said == "" and found["link"] == links.CUSTOM and found["loss"] == 2 and box["visible"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"link": "rtt=fast"}, "rtt of a link must be a number"),
        ({"link": "carrier-pigeon"}, "No link is called 'carrier-pigeon'"),
        ({"link": "rtt=20000"}, "from 0 to 10000"),
        ({"link": "rtt=5000"}, "own figures are here rtt 0 to"),
        ({"link": "rtt=20,overload=50"}, "'overload=50' in the link"),  # of an older address
        ({"link": "rtt=20,loss=0.9"}, "loss 0 to 20"),
        ({"method": "moa-n9"}, "method must be one of moa-n1, vanilla"),
        ({"tokens": "0"}, "tokens must be a number from 1 to 512"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_is(query, words):
    found, said, *_ = opened(prompt="Hello", **query)
    assert words in said and found == {"prompt": "Hello"}


def test_addresses_of_other_tabs_are_left_to_them():
    assert opened(tab="live", link="rtt=fast", method="nonsense")[:2] == ({}, "")


def test_an_address_of_another_target_or_with_unknown_settings_is_told_so():
    found, said, *_ = opened(target="giant", method="moa-n1", n="9", repeats="many")
    assert "target must be tiny." in said and "there is no setting n, only target" in said
    assert found == {"method": "moa-n1"} and "repeats must" not in said


def test_settings_make_an_address_that_gives_them_back():
    values = {"prompt": "A & b?", "method": "moa-n1", "link": links.CUSTOM, "tokens": 33}
    values |= {**links.sliders(PRESETS["wifi"]), "loss": 2.5}
    status, query = links.address(
        "network", *vars(links.Settings(target="tiny", **values)).values()
    )
    assert status["kind"] == "done" and query.startswith("?tab=network&")
    found, said, *_ = opened(**dict(parse_qsl(query[1:])))
    assert said == "" and found == values


def test_a_prompt_too_long_for_an_address_gets_a_sentence():
    values = {
        "prompt": "x" * 2000,
        "method": "moa-n1",
        "link": "4g",
        "tokens": 9,
        **links.sliders(),
    }
    status, query = links.address("network", *vars(links.Settings(target="", **values)).values())
    assert status["kind"] == "error" and query == ""


def test_figures_of_no_link_get_a_sentence():
    values = {**links.sliders(), "down": 0}
    assert "down of a link must be" in links.about_of(links.CUSTOM, *values.values())
    with pytest.raises(UserError):
        links.chosen(links.CUSTOM, values)
