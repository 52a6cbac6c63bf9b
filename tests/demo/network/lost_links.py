"""Runs whose link was lost, made by hand: every number in them is known."""

from dataclasses import replace

from moa_core.decoding.trace import (
    Drafted,
    Finished,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Verified,
)
from moa_core.decoding.tree import DraftTree

ROOT = 3  # tokens of the prompt: the first new token stands there


def verified(cycle, emitted, kept=False, network=0.06, sent=100, received=2000):
    """A verification that accepted all but the last of what it emits."""
    path = tuple(range(1, len(emitted)))
    ids = (0,) * 9  # more than any of these trees has nodes
    return Verified(
        cycle, path, emitted[-1], ids, (0.5,) * len(ids), (0.5,) * len(ids), tuple(emitted), 0.01,
        0.001, network, sent, received, kept,
    )  # fmt: skip


def drafted(cycle, position, tokens, offline=False, received=0):
    tree = DraftTree.chain(1, list(tokens), [-0.1] * len(tokens))
    return Drafted(cycle, position, tree, 0.005, None, offline, received)


def written(first, tokens):
    """What the drafter wrote alone from a position on."""
    return [OfflineToken(first + at, token, 0.8, 0.002) for at, token in enumerate(tokens)]


def begun():
    """The prompt of three tokens and a first cycle that gains 10 and 11, after token 1."""
    yield Prefilled((7, 8, 9), 1, 0.5, 0.2, 0.06, 300, 150)
    yield drafted(0, ROOT, [10, 12], received=5000)
    yield verified(0, [10, 11])


def healed():
    """Alone it wrote 20 to 24. The old question's answer is 20; of the rest 21 is confirmed, and
    30 stands where 22 was."""
    yield from begun()
    yield drafted(1, 5, [50])
    yield LinkDown(1.2)
    yield from written(6, [20, 21, 22, 23, 24])
    yield LinkBack(3.0, 5)
    yield verified(1, [20], network=0.0)
    yield drafted(2, 6, [21, 22, 23, 24], offline=True)
    yield verified(2, [21, 30])
    yield Finished("length", {"prefill": 0.3, "draft": 0.1, "verify": 0.03, "network": 4.4,
                              "other": 0.003})  # fmt: skip


def kept():
    """Alone it wrote 20, 21, 22, and that stays; 30 comes after it."""
    yield from begun()
    yield drafted(1, 5, [50])
    yield LinkDown(1.2)
    yield from written(6, [20, 21, 22])
    yield LinkBack(3.0, 3)
    yield drafted(1, 5, [20, 21, 22], offline=True)
    yield verified(1, [20, 21, 22, 30], kept=True)
    yield Finished("length", {"network": 3.0})


def gone():
    """The link stayed lost after 20 and 21."""
    yield from begun()
    yield drafted(1, 5, [50])
    yield LinkDown(1.2)
    yield from written(6, [20, 21])
    yield Finished("offline", {"network": 9.0})


def fitted(events):
    """The same, each verification's columns as long as its tree: what a file must have."""
    for event in events:
        if isinstance(event, Drafted):
            count = len(event.tree)
        if isinstance(event, Verified):
            columns = ("choices", "choice_probs", "draft_probs")
            event = replace(event, **{name: getattr(event, name)[:count] for name in columns})
        yield event
