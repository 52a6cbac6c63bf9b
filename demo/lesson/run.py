"""The runs inside the lesson: one real cycle, shown as a small table. HTML, everything escaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from html import escape

from demo.common.methods import family, label
from demo.engine import Engine, Request, Run
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.errors import UserError
from moa_core.text import TokenText

TREE, CHAIN = TreeSettings(4, 3, 10), TreeSettings(12, 1, 12)


@dataclass(frozen=True)
class Cycle:
    """One cycle, and how to show its tokens."""

    method: str
    text: TokenText
    drafted: Drafted
    verified: Verified

    @property
    def tree(self) -> DraftTree:
        return self.drafted.tree

    def piece(self, token: int) -> str:
        """A token as HTML: its text, line breaks and lone spaces visible."""
        words = self.text.alone(token).replace("\n", "↵")
        return f"<samp>{escape(words if words.strip() else words.replace(' ', '␣')) or '·'}</samp>"

    def choice(self, node: int) -> str:
        """The target's token after a node, and its probability."""
        prob = percent(self.verified.choice_probs[node])
        return f"{self.piece(self.verified.choices[node])} {prob}"

    @property
    def times(self) -> str:
        """How long it took."""
        spent = 1000 * self.drafted.seconds, 1000 * self.verified.seconds
        return f"{spent[0]:.1f} ms to draft, {spent[1]:.1f} ms to verify"


@dataclass(frozen=True)
class Row:
    """A row of the table.

    level  how far the token is moved in
    state  root, draft, accepted, rejected, bonus, later
    data   what the row says, as numbers, for its attributes
    """

    token: int
    level: int
    state: str
    cells: tuple[str, ...]
    data: dict[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """What a step lets its reader run.

    columns  of the table, after the tokens
    said     the cycle in a sentence, as HTML
    rows     the table's
    """

    button: str
    caption: str
    tree: TreeSettings
    columns: tuple[str, ...]
    said: Callable[[Cycle], str]
    rows: Callable[[Cycle], Iterator[Row]]


def drafter_of(engine: Engine, target: str) -> str:
    """The MoA drafter to show for a target. UserError if it has none."""
    there = [name for name in engine.methods(target) if family(name) == "moa"]
    if not there:
        raise UserError("No MoA drafter is installed for this target: choose another target above.")
    default = engine.default(target)
    return default if default in there else there[0]


def request(engine: Engine, trial: Trial, prompt: str, target: str) -> Request:
    """One greedy cycle of that trial's tree."""
    length = trial.tree.depth + 2  # the prefill's token, a whole path and a bonus: nothing is cut
    return Request(prompt, drafter_of(engine, target), length, trial.tree, target=target)


def first_cycle(run: Run) -> Cycle:
    """Run until the first tree is verified, and no further. UserError if none is."""
    drafted = None
    with closing(run.events) as events:  # type: ignore[type-var]
        for event in events:
            if isinstance(event, Drafted):
                drafted = event
            elif isinstance(event, Verified) and drafted is not None:
                text = TokenText(run.target.tokenizer)
                return Cycle(str(run.trace.about["method"]), text, drafted, event)
    if run.trace.reason == "stopped":
        raise UserError("Stopped before the first cycle.")
    raise UserError(
        "The target ended its answer after one token, so nothing was drafted: write another prompt."
    )


def show(trial: Trial, cycle: Cycle) -> str:
    """What happened, in a sentence and a table."""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("token", *trial.columns))
    body = "".join(_row(cycle, row, rise) for row, rise in _risen(trial.rows(cycle)))
    return (
        f'<p class="how-said">{escape(label(cycle.method))}: {trial.said(cycle)}</p>'
        f'<div class="how-scroll" tabindex="0" role="region" aria-label="{escape(trial.caption)}">'
        f'<table class="how-tree"><caption>{escape(trial.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _risen(rows: Iterator[Row]) -> Iterator[tuple[Row, int]]:
    """Each row, and how many rows above it its parent stands: the length of the line to it."""
    newest: dict[int, int] = {}  # level -> place of its newest row
    for place, row in enumerate(rows):
        yield row, place - newest.get(row.level - 1, place)
        newest[row.level] = place


def _row(cycle: Cycle, row: Row, rise: int) -> str:
    data = "".join(f' data-{name}="{value}"' for name, value in row.data.items())
    rest = "".join(f"<td>{cell}</td>" for cell in row.cells)
    return (
        f'<tr class="{row.state}" data-state="{row.state}" data-token="{row.token}"{data}>'
        f'<th scope="row"><span class="how-indent" style="--level: {row.level}; --rise: {rise}">'
        f"{cycle.piece(row.token)}</span></th>{rest}</tr>"
    )


# ---- drafting ----


def _drafted_said(cycle: Cycle) -> str:
    return (
        f"{len(cycle.tree) - 1} nodes in {max(cycle.tree.depths)} levels below "
        f"{cycle.piece(cycle.tree.tokens[0])}, drafted in {1000 * cycle.drafted.seconds:.1f} ms."
    )


def _drafted_rows(cycle: Cycle) -> Iterator[Row]:
    tree = cycle.tree
    for node in in_order(tree):
        path = math.exp(tree.log_probs[node])
        cells = (percent(tree.draft_prob(node)), percent(path)) if node else ("sure", "sure")
        data = {"node": node, "parent": tree.parents[node], "path": round(path, 6)}
        yield Row(
            tree.tokens[node], tree.depths[node], "draft" if node else "root", cells, data
        )  # fmt: skip


def in_order(tree: DraftTree, node: int = 0) -> Iterator[int]:
    """Nodes with their parents before them, likely branches first."""
    yield node
    for child in sorted(tree.children[node].values(), key=lambda child: -tree.log_probs[child]):
        yield from in_order(tree, child)


# ---- verifying ----


def _verified_said(cycle: Cycle) -> str:
    gained = cycle.verified.gained
    return (
        f"of {len(cycle.tree) - 1} nodes, {len(cycle.verified.path)} accepted; with the bonus, "
        f"{gained} token{'s' if gained > 1 else ''} gained by one target forward ({cycle.times})."
    )


def _verified_rows(cycle: Cycle) -> Iterator[Row]:
    """The tree, the bonus below the last accepted node."""
    tree, verified = cycle.tree, cycle.verified
    last = verified.path[-1] if verified.path else 0
    signs = {"root": "newest token", "accepted": "✓ accepted", "rejected": "✗ rejected"}
    for node in in_order(tree):
        state = ("accepted" if node in verified.path else "rejected") if node else "root"
        data = {"node": node, "parent": tree.parents[node], "choice": verified.choices[node]}
        cells = (cycle.choice(node), signs[state])
        yield Row(tree.tokens[node], tree.depths[node], state, cells, data)
        if node == last:
            yield Row(verified.bonus, tree.depths[node] + 1, "bonus", ("–", "★ bonus"))


# ---- the drafter alone ----


def _alone_said(cycle: Cycle) -> str:
    count, nodes = len(cycle.verified.path), len(cycle.tree) - 1
    words = "".join(cycle.text.alone(token) for token in cycle.tree.tokens[1:])
    agreed = {0: "none of them is", 1: "the first one is", nodes: "all of them are"}
    return (
        f"after {cycle.piece(cycle.tree.tokens[0])} it wrote {nodes} tokens, "
        f"<q>{escape(words)}</q>; {agreed.get(count, f'the first {count} are')} what the target "
        f"would have written ({cycle.times})."
    )


def _alone_rows(cycle: Cycle) -> Iterator[Row]:
    """The chain, beside each token what the target would have put in its place."""
    tree, verified = cycle.tree, cycle.verified
    for node, token in enumerate(tree.tokens):
        if not node:
            yield Row(token, 0, "root", ("", "newest token"), {"node": 0})
            continue
        same = verified.choices[node - 1] == token
        state, sign = "rejected", "✗ differs"
        if same:
            known = node in verified.path
            state, sign = ("accepted", "✓ same") if known else ("later", "same, too late")
        data = {"node": node, "choice": verified.choices[node - 1]}
        yield Row(token, 1, state, (cycle.choice(node - 1), sign), data)


def percent(value: float) -> str:
    """A probability as people read it."""
    return "&lt; 0.1 %" if 0 < value < 0.001 else f"{100 * value:.1f} %"


TRIALS = {
    "draft": Trial(
        "Draft one tree", "The draft tree, each node under its parent", TREE,
        ("drafter’s probability", "of the whole path"), _drafted_said, _drafted_rows,
    ),
    "verify": Trial(
        "Draft and verify it", "The same tree after one target forward", TREE,
        ("the target’s next token", "result"), _verified_said, _verified_rows,
    ),
    "alone": Trial(
        "Draft twelve tokens alone", "Twelve tokens of the drafter, and the target’s word on each",
        CHAIN, ("the target here", "result"), _alone_said, _alone_rows,
    ),
}  # fmt: skip
