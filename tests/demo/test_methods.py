"""Names of methods, for people and for charts."""

from demo.common.methods import COLOURS, colour, family, label, ordered, tli_of
from moa_core.loading.names import LABELS
from moa_core.train.fresh import ABLATIONS as TRAINED


def test_a_name_says_family_and_n():
    assert (family("moa-n2"), tli_of("moa-n2"), label("moa-n2")) == ("moa", 2, "MoA N=2")
    assert (family("eagle2"), tli_of("eagle2"), label("eagle2")) == ("eagle2", 0, "EAGLE-2")
    assert (family("moa-auto"), label("moa-auto")) == ("moa-auto", "MoA, auto N")
    assert label("moa-n12") == "MoA N=12" and label("moa-no-lsa") == "MoA without LSA"
    assert label("<someone's>") == "<someone's>"


def test_every_ablation_has_a_name():
    assert set(LABELS) - set(COLOURS) == set(TRAINED)


def test_methods_come_in_one_order():
    mixed = ["vanilla", "moa-n3", "eagle", "ngram", "moa-n0", "eagle2"]
    assert ordered(mixed) == ["moa-n0", "moa-n3", "eagle2", "eagle", "ngram", "vanilla"]


def test_no_two_methods_share_a_colour():
    names = [name for name in COLOURS if name not in ("moa", "given")]
    names += [f"moa-n{tli}" for tli in range(4)]
    assert len({colour(name) for name in names}) == len(names)
