"""Settings into an address and back."""

from urllib.parse import parse_qsl

import pytest

from demo.share import query_of, settings_of

SETTINGS = {
    "target": "tiny", "method": "moa-n1", "prompt": "A fox & a hen?\n100 % ${6*7} <b> é 🦊",
    "pace": "slow", "tokens": 64, "depth": 4, "breadth": 3, "budget": 10,
    "temperature": 0.5, "top_p": 0.9, "seed": 7,
}  # fmt: skip


def test_settings_come_back_as_they_were():
    found, wrong = settings_of(dict(parse_qsl(query_of(SETTINGS))))
    assert wrong == [] and found == SETTINGS


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


def test_parts_for_others_are_nobodys_business():
    foreign = {"__theme": "dark", "utm": "x", "utm_source": "x", "view": "api", "fbclid": "x"}
    assert settings_of(foreign | {"tab": "live"}) == ({}, [])


def test_a_setting_of_an_older_address_is_named_and_the_rest_is_taken():
    found, [sentence] = settings_of({"system": "Be kind.", "seed": "7"})
    assert found == {"seed": 7} and sentence.startswith("there is no setting system, only ")


def test_what_looks_like_a_setting_and_is_none_is_named():
    found, [sentence] = settings_of({"n": "9", "viewer": "1", "x" * 99: "", "seed": "7"})
    assert found == {"seed": 7}
    assert sentence.startswith(f"there is no setting n, viewer, {'x' * 40}, only target, method, ")
    assert len(settings_of({str(one): "" for one in range(999)})[1][0]) < 300
