"""What a Space's variables decide, and what its page is told."""

import pytest

from demo.space import BUNDLE, GPU_PRESET, NUMBERS, Chosen, chosen_preset, number
from moa_core.errors import UserError
from moa_core.loading.presets import PRESETS

SPACE = {"SPACE_ID": "someone/moa"}
TOKEN = {"HF_TOKEN": "hf_secret"}


def test_at_home_only_moa_preset_decides():
    assert chosen_preset({}, True) == chosen_preset({}, False) == Chosen(None)
    assert chosen_preset({"MOA_PRESET": GPU_PRESET}, False) == Chosen(GPU_PRESET)


def test_a_space_with_a_gpu_and_a_token_runs_the_large_preset():
    assert chosen_preset(SPACE | TOKEN, True) == Chosen(GPU_PRESET)
    assert chosen_preset(SPACE | TOKEN | {"MOA_PRESET": "another"}, True) == Chosen("another")


@pytest.mark.parametrize("token", [{}, {"HF_TOKEN": ""}, {"HF_TOKEN": " "}])
@pytest.mark.parametrize("preset", [{}, {"MOA_PRESET": GPU_PRESET}])
def test_without_a_token_it_runs_the_bundle_and_says_so(token, preset):
    found = chosen_preset(SPACE | token | preset, True)
    assert found.preset is None and "no secret HF_TOKEN" in found.words
    assert GPU_PRESET in found.words


@pytest.mark.parametrize("more", [{}, TOKEN])
def test_without_a_gpu_it_runs_the_bundle_and_says_so(more):
    found = chosen_preset(SPACE | more, False)
    assert found.preset is None and "no GPU" in found.words


@pytest.mark.parametrize("cuda", [True, False])
def test_whoever_wants_the_bundle_gets_it_without_a_word(cuda):
    assert chosen_preset(SPACE | TOKEN | {"MOA_PRESET": BUNDLE}, cuda) == Chosen(None)


def test_a_token_is_never_part_of_the_words():
    for cuda in (True, False):
        assert TOKEN["HF_TOKEN"] not in chosen_preset(SPACE | TOKEN, cuda).words


def test_the_preset_is_one_that_there_is():
    assert GPU_PRESET in PRESETS and BUNDLE not in PRESETS


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_defaults_and_bounds(name):
    default, low, high = NUMBERS[name]
    assert number({}, name) == number({name: " "}, name) == default
    assert number({name: f" {low} "}, name) == low and number({name: str(high)}, name) == high
    for wrong in (str(low - 1), str(high + 1), "many", "1.5", "-3", "²"):
        with pytest.raises(UserError, match=f"{name} is .*from {low} to {high}"):
            number({name: wrong}, name)
