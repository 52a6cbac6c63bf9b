"""Recorded benchmarks as text and tables: figures, date, machine and command."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from demo.common.figures import listed, many
from demo.common.methods import RIVAL
from moa_core.bench.methods import PEERS
from moa_core.bench.paper import Cell, published, ratio
from moa_core.bench.records import Recording, Row
from moa_core.bench.results import tree_text
from moa_core.bench.tables import SETS
from moa_core.drafters.names import LOOKUP, NGRAM, VANILLA, family, label, tli_of

ALIKE = 0.05  # by how much the speeds of single passes differ, though nothing else does: see NOTES
PACES = {1: "faster", 0: "about as fast", -1: "slower"}
PLACES = {-1: "behind", 0: "level with", 1: "ahead of"}
NOTES = {  # below each chart: how to read it
    "speed": (
        "Whole runs, the prompt’s call included. Dotted: plain decoding. After an arrow: with "
        "n-gram lookup. A thin line: from the slowest pass to the fastest; in a striped row, with "
        "lookup."
    ),
    "tau": (
        "Tokens (words or parts of words) that one call of the model brings on average; alone, it "
        "is 1. Speed grows less: guessing takes time, and so does checking several tokens."
    ),
    "acceptance": "Share of the cycles with at least so many right guesses in a row.",
    "times": "Without the prompt’s call. “Other”: acceptance, cache and so on.",
}
UNEQUAL = "N\u00a0=\u00a01 was trained least, N\u00a0=\u00a03 longest"
METHODS = (
    "<b>MoA</b>, <b>EAGLE</b>: trained drafters of one size, taught by the same text. N: layers of "
    f"the target that MoA borrows; {UNEQUAL}, so compare N with care. "
    "<b>N-gram lookup</b>: untrained, it repeats the text so far. "
    "<b>Plain</b>: the target alone."
)
SETTINGS = (
    " <b>Settings</b>: trees of as many guesses as pay off in each cycle, or of equally many for "
    "all methods; the target’s numbers in float32 or int8; sampled: words drawn "
    "at random."
)
TANDEM = (
    " Tandem is a small model that reads the target’s states of checked tokens in place of its own."
)
MEDUSA = " <b>Medusa</b>: a method of others, smaller, and trained less."
OTHERS = " <b>{}</b>: other programs that run the same target, without our drafters."
COLUMNS = (
    "× plain: speed over plain decoding’s. tokens/s: whole runs, the prompt’s call included. τ: "
    "acceptance length, tokens per model call. low, high: 95\u00a0% intervals, over the prompts. "
    "same text: prompts with plain decoding’s text. tree: levels, guesses per level and guesses "
    "kept, or auto and the mean number of guesses. Scroll down for the rows of each kind of prompt."
)
DRAWN = "Words are drawn at random: texts differ, but each word is as likely as in plain decoding."
LEVEL = {False: "within 5\u00a0%", True: "their passes overlap"}  # whether there are several passes
SURE = "the 95\u00a0% interval of their ratio, over the prompts, includes 1"
HERE = "this server’s kind of processor"
SHOWN = {  # columns of numbers: how each is written
    "× plain": "{:.2f}", "× low": "{:.2f}", "× high": "{:.2f}",
    "tokens/s": "{:.1f}", "τ": "{:.2f}", "τ low": "{:.2f}", "τ high": "{:.2f}",
    "tokens/s after the prompt": "{:.1f}", "weights": "{:,.1f} M",
}  # fmt: skip


def title(recording: Recording, here: str = "") -> str:
    """What sets a recording apart, in plain words; here: this server's processor, or ""."""
    parts = [_settings(recording)]
    known, found = _instructions(recording)
    if near(recording, here):
        parts += [f"{HERE} ({found}"]
    elif known and "AMX" in found:
        parts += ["processor with AMX"]
    elif known and "VNNI" not in found:
        parts += [f"older processor ({found.rstrip(')')})"]
    return ", ".join(parts)


def _settings(recording: Recording) -> str:
    given = recording.results["settings"]
    trees = {"auto": "Trees that size themselves", "same": "One tree for all"}
    parts = [trees.get(given.get("tree"), recording.name), recording.precision]
    return ", ".join(parts + ["sampled"] * bool(given.get("temperature")))


def choice(recording: Recording, here: str = "") -> str:
    """The title, and the method with the highest speed. here: this server's processor."""
    drafting, name = drafters(recording), title(recording, here)
    if not drafting:
        return name
    best = max(drafting, key=lambda name: drafting[name]["speedup"])
    return f"{name}: {label(best)} {_over(drafting, [best])}"


def near(recording: Recording, here: str) -> bool:
    """Whether its processor has the newest instructions of the one that is named `here`."""
    known, kind = _instructions(recording)
    return bool(known and here.endswith(f"({kind}"))


def _instructions(recording: Recording) -> tuple[str, str]:
    """The end of its processor's name, after "(", if that names a set of instructions."""
    _, known, found = recording.results["machine"]["processor"].rpartition("(")
    return known, found


def drafters(recording: Recording) -> dict[str, dict[str, Any]]:
    """The figures of methods that draft, where their speed over plain decoding's is known."""
    return {name: found for name, found in recording.methods.items()
            if found.get("speedup") and found.get("tree") and name != VANILLA}  # fmt: skip


def made(recording: Recording) -> str:
    """Model, machine and amount, as a line. The sets are the kinds of prompts."""
    given, one = recording.results["settings"], next(iter(recording.methods.values()))
    sets = f" from {many(len(recording.kinds), 'set')}" if recording.kinds else ""
    cap = f", at most {most} tokens each" if (most := given.get("max_new_tokens")) else ""
    every = (found.get("draft_precision") for found in recording.methods.values())
    drafts = f", drafts in {known}" if (known := next(filter(None, every), "")) else ""
    prompts = f"{many(one['prompts'], 'prompt')}{sets}{cap}"
    return (
        f"{recording.target}. {_settings(recording)}{drafts}. {prompts}, "
        f"{many(given['repeat'], 'pass', 'passes')}. {recording.machine}."
    )


def methods(recording: Recording) -> str:
    others = dict.fromkeys(label(name).split(",")[0] for name in recording.methods if name in PEERS)
    peers = OTHERS.format(", ".join(others)) if others else ""
    return f"<p>{METHODS}{MEDUSA * ('medusa' in recording.methods)}{peers}{SETTINGS}</p>"


def styled(recording: Recording) -> Styler:
    """The table, with the same digits all down a column."""
    rows = table(recording)
    return rows.style.format({name: SHOWN[name] for name in rows if name in SHOWN}, na_rep="–")


def table(recording: Recording) -> pd.DataFrame:
    """A row per kind of prompt and method, all kinds first. Empty columns are left out."""
    rows = [
        _row(name, kind, found)
        for kind in (None, *recording.kinds)
        for name in recording.methods
        if (found := recording.figures(name, kind))
    ]
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _row(name: str, kind: str | None, found: dict[str, Any]) -> dict[str, Any]:
    whole = kind is None
    low, high = found.get("tau_spread") or (None, None)
    least, most = found.get("speedup_spread") or (None, None)
    same, trained = found.get("identical_to_vanilla"), found.get("trainable_parameters")
    if same is not None:
        same = f"{round(same * found['prompts'])} of {found['prompts']}"
    return {
        "method": label(name),
        "prompts": kind or "all",
        "× plain": found.get("speedup") if whole else None,
        "× low": least if whole else None,
        "× high": most if whole else None,
        "tokens/s": found.get("tokens_per_second"),
        "τ": found.get("tau"),
        "same text": same,
        "τ low": low,
        "τ high": high,
        "tokens/s after the prompt": found.get("decode_tokens_per_second"),
        "tree": tree_text(found) if whole else None,
        "weights": trained / 1e6 if trained else None,
        "drafts in": found.get("draft_precision"),
    }


WHY = (
    "<b>Why it gains more there:</b> its model is sixty times as large, and a call of it over "
    "many tokens takes about as long as over one. Its drafters were trained far longer. Beside the "
    "small model here, a drafter costs more."
)
PAPERS = {  # our methods' names in the authors' table
    "eagle2": "EAGLE-2, retrained by the authors", "moa-n0": "MoA, TLI N = 0",
    "moa-n1": "MoA, TLI N = 1", "moa-n3": "MoA, TLI N = 3",
}  # fmt: skip


def pace(found: dict[str, Any], other: dict[str, Any]) -> int:
    """1: faster than the other method; -1: slower; 0: about as fast, by the recording's
    `level_rule`; a single pass without it: ALIKE. Without the other, against plain decoding."""
    known = ratio(found, other)
    over = known.value if known else found["speedup"]
    alike = abs(over - 1) < ALIKE if known is None or known.level is None else known.level
    return 0 if alike else 1 if over > 1 else -1


def conclusion(recording: Recording) -> list[str]:
    """Sentences; none without a method that drafts.

    What drafting gains, with how many methods, if not all, and most with which; MoA against the
    target alone and other drafters; which to use, where some ran with n-gram lookup; whether the
    text is the same; what MoA gains by kind of prompt.
    """
    drafting = drafters(recording)
    order = sorted(drafting, key=lambda name: -drafting[name]["speedup"])
    if not order:
        return []
    alone = [name for name in order if name != NGRAM and not name.endswith(LOOKUP)]
    ours = [name for name in alone if family(name) == "moa"]
    mine = min(ours, key=tli_of, default="")  # in Live, too, it is the first
    paces = Counter(pace(found, recording.figures(VANILLA)) for found in drafting.values())
    gains = _over(drafting, order)
    counted = [f"{paces[each]} {'is' if paces[each] == 1 else 'are'} {words}"
               for each, words in PACES.items() if paces[each]]  # fmt: skip
    ahead = _fastest(drafting, order, alone)
    faster = (
        "faster than it is alone"
        if ahead.startswith(":")
        else f"{gains} as fast as it is alone, over all prompts"
    )
    pays = f"Guessing ahead makes the target {faster}"
    if set(paces) == {0, 1}:
        pays = f"Guessing ahead makes the target faster with {paces[1]} of "
        pays += f"{many(len(order), 'method')} ({gains} plain decoding’s speed)"
    elif set(paces) != {1}:
        pays = f"Guessing ahead does not always pay: of {many(len(order), 'method')} that draft, "
        pays += f"{listed(counted)} ({gains} plain decoding’s speed)"
    same = all(found.get("identical_to_vanilla") == 1 for found in drafting.values())
    sentences = [
        f"{pays}{ahead}.",
        _ranked(drafting, mine, alone) if mine else "",
        _joined(drafting, order, alone),
        "Every text is the same as plain decoding’s." * same,
        DRAWN * bool(recording.results["settings"].get("temperature")),
        by_kind(recording, mine),
    ]
    return [*filter(None, sentences)]


def _ranked(drafting: dict[str, dict[str, Any]], mine: str, alone: Sequence[str]) -> str:
    """MoA against the target alone and against other drafters."""
    told = [f"{label(mine)} reaches {_over(drafting, [mine])}{_sure(drafting[mine])}"]
    more = [f"{label(name)} {_over(drafting, [name])}" for name in sorted(alone, key=tli_of)
            if family(name) == "moa" and name != mine]  # fmt: skip
    told[0] += f", {listed(more)}" if more else ""
    for place, word in PLACES.items():
        others = [name for name in alone if family(name) != "moa"
                  and pace(drafting[mine], drafting[name]) == place]  # fmt: skip
        if others:
            each = [f"{label(name)} ({_over(drafting, [name])})" for name in others]
            told += [f"{word} {listed(each)}"]
    return f"{', '.join(told)}."


def _joined(drafting: dict[str, dict[str, Any]], order: Sequence[str], alone: Sequence[str]) -> str:
    """Where drafters also ran with n-gram lookup in their tree: what to use, and lookup alone."""
    if not any(name.endswith(LOOKUP) for name in order) or drafting[order[0]]["speedup"] <= 1:
        return ""
    level = [name for name in order if not pace(drafting[order[0]], drafting[name])]
    best, *others = [f"{label(name)} ({_over(drafting, [name])})" for name in level]
    told = f"For use: {best}{f', level with {listed(others)}' if others else ''}."
    if NGRAM not in drafting or NGRAM in level:
        return told
    cheap = alone and pace(drafting[NGRAM], drafting[alone[0]]) == 1
    why = " beats every drafter alone: its guesses cost almost nothing"
    gains = _over(drafting, [NGRAM])
    return f"{told} Untrained lookup alone {f'({gains}){why}' if cheap else f'reaches {gains}'}."


def _fastest(
    drafting: dict[str, dict[str, Any]], order: Sequence[str], alone: Sequence[str]
) -> str:
    if len(order) == 1:
        return ""
    best = drafting[order[0]]
    ahead = [name for name in order if name == order[0] or not pace(best, drafting[name])]
    if len(ahead) == 1:
        return f"; {label(ahead[0])} is the fastest"
    if all(name.endswith(LOOKUP) for name in ahead):
        apart = f"drafters alone {_over(drafting, alone)}, " if alone else ""
        mixed = [name for name in order if name.endswith(LOOKUP)]
        return f": {apart}with n-gram lookup {_over(drafting, mixed)}"
    return f"; {listed([*map(label, ahead)])} are the fastest ({_over(drafting, ahead)})"


def _over(drafting: dict[str, dict[str, Any]], names: Sequence[str]) -> str:
    """From the least to the most gained by some methods."""
    ends = [f"{end(drafting[name]['speedup'] for name in names):.2f}" for end in (min, max)]
    return f"{' to '.join(dict.fromkeys(ends))} ×"


def _sure(found: dict[str, Any]) -> str:
    low, high = found.get("speedup_spread") or (None, None)
    return f" (95\u00a0%: {low:.2f} to {high:.2f})" if low and high else ""


def by_kind(found: Recording, name: str) -> str:
    """From the least to the most that a method gains on a kind of prompt, if recorded."""
    rates = {kind: [found.figures(one, kind) for one in (name, VANILLA)] for kind in found.kinds}
    gains = {kind: gain.value for kind, both in rates.items()
             if (gain := ratio(*both))}  # fmt: skip
    if not gains:
        return ""
    ends = (end(gains, key=gains.__getitem__) for end in (min, max))
    least, most = (f"{gains[kind]:.2f} × ({SETS.get(kind, kind)})" for kind in ends)
    return f"By kind of prompt, {label(name)} has {least} to {most}."


def papers_means() -> dict[str, Cell]:
    """Speed-up and τ of the methods that are also in the authors' table."""
    means = {row.drafter: published().mean(row) for row in published().rows}
    return {name: means[theirs] for name, theirs in PAPERS.items()}


def beside(recording: Recording | None = None) -> str:
    """Speed-up and τ of the paper's methods, here and in the paper, and whose they are, as HTML."""
    paper, rows = published(), ""
    for name, theirs in papers_means().items():
        found = recording.figures(name) if recording else {}
        cells = found.get("speedup"), found.get("tau"), *theirs
        tds = "".join(f"<td>{f'{cell:.2f}' if cell else '–'}</td>" for cell in cells)
        rows += f'<tr><th scope="row">{escape(label(name))}</th>{tds}</tr>'
    apart = ", ".join(name for at, name in enumerate(paper.data) if at not in paper.shared)
    source = ". ".join(escape(text) for text in paper.source.values())
    return f"""<div class="paper"><h2>In the paper, with a larger model</h2>
<p>{WHY}</p>
<table class="beside"><thead><tr><th rowspan="2">Method</th><th colspan="2">Here</th>
<th colspan="2">In the paper</th></tr><tr>{"<th>× plain</th><th>τ</th>" * 2}</tr></thead>
<tbody>{rows}</tbody></table>
<p class="note">{"–: not in this recording. " * ("<td>–</td>" in rows)}× plain: speed over plain
decoding’s on the same machine, so compare methods, not machines.</p>
<details class="note"><summary>Where the paper’s figures are from</summary><p>Not measured here:
{escape(paper.target)}, {escape(paper.settings)}; hardware {escape(paper.hardware)}. Means of its
data sets, without {escape(apart)}. {escape(paper.flag)} Source: {source}.</p></details></div>"""


def headline(recording: Recording) -> str:
    """A recording's conclusion, and how it was made, as HTML."""
    first, *rest = conclusion(recording) or ["No method that drafts was measured."]
    points = "".join(f"<li>{escape(one)}</li>" for one in rest)
    date, commit, command = (recording.results[key] for key in ("date", "commit", "command"))
    return (
        f'<div class="record-claims"><p class="conclusion">{escape(first)}</p><ul>{points}</ul>'
        f'<p class="note">{escape(made(recording))} One text at a time (batch 1). '
        f"Level: {level_rule(recording)}.</p>"
        f"<details><summary>How it was measured</summary>"
        f"<p>Recorded {escape(date[:10])}, commit {escape(commit)}. Compare speeds "
        f'within one recording only.</p><pre tabindex="0">{escape(command)}</pre>'
        "</details></div>"
    )


def level_rule(recording: Recording) -> str:
    """When two methods are level."""
    if all(found.get("by_prompt") for found in recording.methods.values()):
        return SURE
    return LEVEL[recording.results["settings"]["repeat"] > 1]


def ahead(found: Row) -> str:
    """How far ahead EAGLE and MoA guess right, as HTML."""
    shares = {row["method"]: row["forced"] for row in found["rows"]}
    mine = next((name for name in shares if family(name) == "moa"), "")
    ends = [
        f"{label(name)} falls from {100 * shares[name][0]:.0f} to {100 * shares[name][-1]:.0f} %"
        for name in (RIVAL, "eagle3", mine)
        if name in shares
    ]
    return f"""<h2>How far ahead a drafter sees</h2>
<p>If each guess is fed the target’s own text before it, how many are right? Counted over
{found["rows"][0]["tokens"]:,} tokens: from the first guess in a row to the last,
{"; ".join(ends)}. EAGLE-2 is trained to guess one token; the others to guess
several in a row.{TANDEM * ("tandem" in shares)} When drafting, guesses are fed guesses, so a wrong
one spoils those after it.</p>
<div class="note">{command(found)}</div>"""


def command(found: Row) -> str:
    """How a recording was made, folded, as HTML."""
    told = escape(str(found["command"]))
    return f"<details><summary>Command</summary><pre tabindex='0'>{told}</pre></details>"
