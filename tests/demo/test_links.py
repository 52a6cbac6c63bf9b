"""Settings into an address and back."""

from urllib.parse import parse_qsl

import pytest

from demo.links import query_of, settings_of

SETTINGS = {
    "target": "tiny", "method": "moa-n1", "prompt": "A fox & a hen?\n100 % ${6*7} <b> é 🦊",
    "system": "", "pace": "slow", "tokens": 64, "depth": 4, "breadth": 3, "budget": 10,
    "temperature": 0.5, "top_p": 0.9, "seed": 7,
}  # fmt: skip


def test_settings_come_back_as_they_were():
    found, wrong = settings_of(dict(parse_qsl(query_of(SETTINGS))))
    assert wrong == [] and found == {name: value for name, value in SETTINGS.items() if value != ""}


def test_a_greedy_temperature_is_kept():
    assert settings_of(dict(parse_qsl(query_of({"temperature": 0}))))[0] == {"temperature": 0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", "many"), ("tokens", "0"), ("tokens", "513"), ("depth", "-1"), ("seed", "1e3"),
        ("temperature", "nan"), ("temperature", "inf"), ("top_p", "0"), ("budget", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_and_the_rest_is(name, value):
    found, [sentence] = settings_of({name: value, "method": "eagle2"})
    assert found == {"method": "eagle2"} and sentence.startswith(f"{name} must be a number from")


def test_unknown_parts_are_nobodys_business():
    assert settings_of({"__theme": "dark", "utm": "x", "tab": "live"}) == ({}, [])
