"""What a recording says of the paper's claim: MoA against EAGLE-2, in τ and in speed."""

from __future__ import annotations

from collections.abc import Sequence

from moa_core.bench.paper import Paper, published
from moa_core.bench.recorded import Ratio, Recording, ratio
from moa_core.bench.values import above_zero

OURS, RIVAL = "moa-n1", "eagle2"
SINGLE_PASS = "speeds of a single pass, recorded without a spread, are not compared"


def claim(recording: Recording) -> str:
    """One or two plain sentences, unescaped, computed from the file."""
    rival = recording.methods.get(RIVAL, {})
    drafted = [name for name in recording.methods if name.startswith("moa-n")]
    fastest = max(drafted, key=lambda name: _speed(recording, name), default="")
    theirs = papers_ratios(published())
    ours = recording.figures(fastest)
    whole, decoding = (
        ratio(ours, rival, key) for key in ("tokens_per_second", "decode_tokens_per_second")
    )
    # A difference between speeds that were passed over once may be the machine's.
    once = bool(whole or decoding) and not any(
        speeds and speeds.overlap is not None for speeds in (whole, decoding)
    )
    named = f"tokens/s of {_named(fastest)}, the fastest MoA here,"
    parts = [
        _part("τ of MoA N=1", ratio(recording.figures(OURS), rival, "tau"), theirs[:1]),
        SINGLE_PASS if once else _part(f"whole-run {named}", whole, theirs[1:]),
        "" if once else _part("of decoding alone that", decoding, ()),
    ]
    said = [part for part in parts if part]
    if not said:
        return "nothing to compare, since MoA and EAGLE-2 are not both in it."
    return f"{'; '.join(said)}."


def _part(subject: str, found: Ratio | None, paper: Sequence[float]) -> str:
    """One ratio beside the paper's."""
    if found is None:
        return ""
    said = f"{subject} is {found.value:.2f} × EAGLE-2’s"
    said += f" (the paper: {paper[0]:.2f} ×)" if paper else ""
    if found.overlap is None:
        return f"{said}, recorded without a spread"
    return f"{said}, {'within' if found.overlap else 'beyond'} the recorded spread"


def _named(name: str) -> str:
    return f"MoA N={name.removeprefix('moa-n')}"


def _speed(recording: Recording, name: str) -> float:
    return above_zero(recording.figures(name).get("tokens_per_second")) or 0.0


def papers_ratios(paper: Paper | None) -> tuple[float, ...]:
    """From the authors' table: N = 1 over EAGLE-2 in τ, the fastest MoA over EAGLE-2 in speed.

    EAGLE-2 as they retrained it; means over the data sets that every row has, so that the cells
    which are flagged do not count. Empty where there is no table.
    """
    if paper is None:
        return ()
    rival = paper.mean(next(row for row in paper.rows if "EAGLE-2, retrained" in row.drafter))
    moa = {tli: paper.mean(row) for tli, row in paper.by_tli.items()}
    return moa[1][1] / rival[1], max(speed_up for speed_up, _ in moa.values()) / rival[0]
