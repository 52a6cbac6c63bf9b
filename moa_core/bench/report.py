"""A benchmark's results as one HTML page that needs no network."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from moa_core.bench import charts
from moa_core.bench.charts import (
    PALETTE,
    PHASES,
    Chart,
    above_zero,
    mapping,
    methods,
    number,
    numbers,
)
from moa_core.bench.paper import Cell, Paper, Row, published
from moa_core.bench.recorded import ratio
from moa_core.bench.results import tree_text

STYLE = Path(__file__).with_name("report.css")
GLYPHS = "●■◆▲✚✖★▼"  # as charts.SYMBOLS
NOTHING = '<span class="missing">{}</span>'
DEFINITION = (
    "<b>Acceptance length τ</b>: tokens gained per target forward after the prefill, the target’s "
    "own bonus token included. Plain decoding has τ = 1. <b>Tokens/s</b> and speed-up count "
    "the whole run, prefill included; tokens/s of decoding leaves the prefill and its token out."
)


def write_report(results: dict[str, Any], path: Path) -> None:
    """Write the page. What the results lack is called unmeasured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_page(mapping(results)), encoding="utf-8")


def _page(results: dict[str, Any]) -> str:
    title = f"Speculative decoding: {escape(str(results.get('suite') or 'a benchmark'))}"
    said = verdict(results)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title><style>{STYLE.read_text(encoding="utf-8")}</style></head>
<body><main>
<h1>{title}</h1>
{_facts(results)}
{f'<p class="verdict">{escape(said)}.</p>' if said else ""}
<p>{DEFINITION}</p>
<h2>All methods</h2>
{_methods_table(results)}
<h2>Charts</h2>
<div class="charts">{_charts(results)}</div>
<h2>How it was measured</h2>
{_details(results)}
{paper_section()}
</main></body></html>
"""


def verdict(results: dict[str, Any]) -> str:
    """One plain sentence from the numbers, unescaped; empty if they do not carry one."""
    found = {name: figures for _, name, figures in methods(results)}
    drafted = [
        name for name, figures in found.items()
        if above_zero(figures.get("tau")) and name.lower() not in ("vanilla", "none")
    ]  # fmt: skip
    if not drafted:
        return ""
    ours = [name for name in drafted if name.lower().startswith("moa")]
    best = max(ours or drafted, key=lambda name: (_speed(found[name]) or 0, found[name]["tau"]))
    said = f"{best} gains {found[best]['tau']:.2f} tokens per target forward"
    rivals = [name for name in drafted if name.lower().startswith("eagle") and name != best]
    if rivals:
        said += _against(rivals[0], found[rivals[0]], found[best])
    gain = above_zero(found[best].get("speedup"))
    said += f"; it is {gain:.2f} × as fast as plain decoding" if gain else ""
    fastest = max(found, key=lambda name: _speed(found[name]) or 0)
    if _speed(found[best]) and fastest != best:
        said += f"; the fastest of all is {fastest}, at {_speed(found[fastest]):.1f} tokens/s"
    return said


def _against(rival: str, theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """The verdict's middle: against one rival, and whether the speeds can be told apart."""
    said = f", {ours['tau'] / theirs['tau']:.2f} × {rival}’s"
    speeds = ratio(ours, theirs, "tokens_per_second")
    if speeds is None:
        return said
    said += f", and is {speeds.value:.2f} × as fast as {rival}"
    return said + (" (their spreads overlap)" if speeds.overlap else "")


def _speed(figures: dict[str, Any]) -> float | None:
    return above_zero(figures.get("tokens_per_second"))


def _facts(results: dict[str, Any]) -> str:
    """What was measured, on what, when."""
    target, machine = mapping(results.get("target")), mapping(results.get("machine"))
    model = [
        _text(target.get("name"), "not recorded"),
        f"{_count(size)} parameters" if (size := above_zero(target.get("parameters"))) else "",
        f"{_text(target['layers'])} layers" if target.get("layers") else "",
        _text(target.get("dtype"), ""),
    ]
    where = [_text(machine.get(key), "") for key in ("device", "processor")]
    where += [f"{_text(machine[key])} {key}" for key in ("cores", "threads") if machine.get(key)]
    rows = {
        "Target": ", ".join(filter(None, model)),
        "Machine": ", ".join(filter(None, where)) or "not recorded",
        "Date": _text(results.get("date"), "not recorded"),
        "Commit": _text(results.get("commit"), "not recorded"),
    }
    return _list(rows)


def _details(results: dict[str, Any]) -> str:
    rows = {
        "Command": _text(results.get("command"), "not recorded"),
        "Settings": _text(results.get("settings"), "not recorded"),
        "Warm-up": _text(results.get("warm_up"), "not recorded"),
        "Energy": _text(results.get("energy"), "unmeasured"),
        "Machine": _text(results.get("machine"), "not recorded"),
        "Versions": _text(results.get("versions"), "not recorded"),
    }
    return _list(rows)


def _list(rows: dict[str, str]) -> str:
    """A list of names and values that are HTML already."""
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in rows.items())}</dl>"


def _methods_table(results: dict[str, Any]) -> str:
    found = methods(results)
    if not found:
        return f"<p>{NOTHING.format('No method was measured.')}</p>"
    rows = [[f"{_swatch(place)} {_text(name)}", *_cells(m).values()] for place, name, m in found]
    return _table(["method", *_cells({})], rows, "All methods")


def _cells(m: dict[str, Any]) -> dict[str, str]:
    """A method's row: column title to HTML."""
    kept = mapping(m.get("training"))
    return {
        "τ": _spread(m, "tau", 2),
        "tokens/s": _spread(m, "tokens_per_second", 1),
        "tokens/s of decoding": _spread(m, "decode_tokens_per_second", 1),
        "speed-up": _number(above_zero(m.get("speedup")), "{:.2f} ×"),
        "trainable": _text(_count(number(m.get("trainable_parameters"))), "unmeasured"),
        "TLI N": _text(m.get("tli"), "–"),
        "tree": _text(_tree(m), "–"),
        "drafts in": _text(m.get("draft_precision"), "–"),
        "prompts": _number(above_zero(m.get("prompts")), "{:,.0f}"),
        "new tokens": _number(above_zero(m.get("new_tokens")), "{:,.0f}"),
        "target calls": _number(above_zero(m.get("target_calls")), "{:,.0f}"),
        "repeated 8-grams": _number(number(m.get("repeats_8gram")), "{:.3g}"),
        "same text as plain decoding": _same(m),
        "joules/token": _number(above_zero(m.get("joules_per_token")), "{:.2f}"),
        "updates": _number(above_zero(kept.get("updates")), "{:,.0f}", "not recorded"),
        "training time": _number(above_zero(kept.get("seconds")), "{:,.0f} s", "not recorded"),
    }


def _tree(m: dict[str, Any]) -> Any:
    """One that was sized automatically with the drafts of its mean; any other as it is."""
    tree = m.get("tree")
    known = mapping(tree).get("auto")
    return tree_text(mapping(tree), number(m.get("drafts_per_cycle"))) if known else tree


def _spread(m: dict[str, Any], key: str, digits: int) -> str:
    value, ends = above_zero(m.get(key)), numbers(m.get(f"{key}_spread"), 2)
    if value is None or not ends:
        return _number(value, f"{{:.{digits}f}}")
    return f"{value:.{digits}f}<small>{ends[0]:.{digits}f} to {ends[1]:.{digits}f}</small>"


def _same(m: dict[str, Any]) -> str:
    """Identity to plain decoding: yes or no, a share, or a number of prompts."""
    value = m.get("identical_to_vanilla")
    if isinstance(value, float) and 0 <= value <= 1:
        return f"{100 * value:.0f} %"
    if number(value) is not None and above_zero(m.get("prompts")):
        return f"{value:g} of {m['prompts']:g}"
    return _text(value, "unmeasured")


def _number(value: float | None, form: str, absent: str = "unmeasured") -> str:
    return NOTHING.format(absent) if value is None else form.format(value)


def _count(value: float | None) -> str | None:
    """8100000 as 8.1 M."""
    if value is None:
        return None
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:g}"


def _text(value: Any, absent: str = "unmeasured") -> str:
    """Any value from outside as HTML text."""
    if value is None or value in ("", {}, []):
        return NOTHING.format(absent) if absent else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        items = (
            f"{_text(str(key).replace('_', ' '))} {_text(item)}" for key, item in value.items()
        )
        return ", ".join(items)
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return escape(str(value))


def _charts(results: dict[str, Any]) -> str:
    tau = charts.by_kind(results, "tau", "τ per kind of prompt", "tokens per target forward")
    speed = charts.by_kind(results, "tokens_per_second", "Speed per kind of prompt", "tokens/s")
    wide = [tau, speed]
    rest = [
        charts.acceptance(results), charts.cycle_times(results), charts.by_place(results),
        charts.training(results), charts.target_calls(results), charts.energy(results),
    ]  # fmt: skip
    parts, library = [], True
    for at, chart in enumerate([*wide, *rest]):
        parts.append(_chart(chart, results, f"chart-{at}", at < len(wide), library))
        library = library and chart.figure is None  # plotly.js comes with the first figure
    return "".join(parts)


def _chart(chart: Chart, results: dict[str, Any], name: str, wide: bool, library: bool) -> str:
    """A figure with title, legend, and what is missing; the word alone where all of it is."""
    frame = f'<figure class="{"wide" if wide else ""}"><h3>{chart.title}</h3>{{}}</figure>'
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    if chart.figure is None:
        return frame.format(f"<p>{NOTHING.format(chart.absent)}</p>{note}")
    if chart.missing:
        lacking = ", ".join(_text(name) for name in chart.missing)
        note += f'<p class="note">{chart.absent.capitalize()}: {lacking}</p>'
    drawn = chart.figure.to_html(
        full_html=False, include_plotlyjs=library, div_id=name, default_width="100%",
        default_height=f"{chart.figure.layout.height}px",
        config={"responsive": True, "displayModeBar": False, "displaylogo": False},
    )  # fmt: skip
    label = f'tabindex="0" role="region" aria-label="{chart.title}"'
    plot = f'<div class="scroll" {label}><div style="min-width:{chart.width}px">{drawn}</div></div>'
    return frame.format(_legend(chart, results) + plot + note)


def _legend(chart: Chart, results: dict[str, Any]) -> str:
    if chart.legend == "phases":
        items = [
            f'<i class="swatch" style="color:#78716c;opacity:{shade}"></i> {phase}'
            for phase, shade in PHASES.items()
        ]
    else:
        items = [
            f"{_swatch(place, chart.legend == 'lines')} {_text(name)}"
            for place, name, _ in methods(results)
            if chart.legend and name not in chart.missing
        ]
    return f'<ul class="legend">{"".join(f"<li>{item}</li>" for item in items)}</ul>'


def _swatch(place: int, line: bool = False) -> str:
    """A method's colour; with its line's marker, or striped as its bars are."""
    colour = PALETTE[place % len(PALETTE)]
    if line:
        return f'<i style="color:{colour}">{GLYPHS[place % len(GLYPHS)]}</i>'
    striped = " striped" if place >= len(PALETTE) else ""
    return f'<i class="swatch{striped}" style="color:{colour}"></i>'


def _table(head: list[str], rows: list[list[str]], name: str) -> str:
    """A table of cells that are HTML already, in a box that scrolls by itself."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    label = f'tabindex="0" role="region" aria-label="{name}"'
    return (
        f'<div class="scroll" {label}><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def paper_section() -> str:
    """The authors' own table, apart; nothing where its file is not there."""
    paper = published()
    if paper is None:
        return ""
    apart = ", ".join(name for at, name in enumerate(paper.sets) if at not in paper.shared)
    rows = [_paper_row(paper, row) for row in paper.rows]
    head = ["drafter", *map(escape, paper.sets), f"mean without {escape(apart)}, computed here"]
    source = ". ".join(escape(text) for text in paper.source.values())
    return f"""<section class="paper">
<h2>For comparison: the authors’ published figures</h2>
<p><b>Not measured here: another model and another machine.</b> {escape(paper.target)},
{escape(paper.settings)}; hardware {escape(paper.hardware)}. Cells: speed-up over the authors’
own plain decoding / τ. Compare rows within this table, not speed-ups across tables.</p>
{_table([*head, "mean as printed"], rows, "The authors' published figures")}
<p class="note">† Left out. {escape(paper.flag)} ‡ Includes the cell left out.</p>
<p class="note">Source: {source}.</p></section>"""


def _paper_row(paper: Paper, row: Row) -> list[str]:
    """Drafter, cells, the mean of the shared data sets, and the mean that the authors print."""
    return [
        escape(row.drafter),
        *(_pair(cell) if cell else NOTHING.format("†") for cell in row.cells),
        _pair(paper.mean(row)),
        _pair(row.printed) + (" ‡" if row.flagged else ""),
    ]


def _pair(cell: Cell) -> str:
    return f"{cell[0]:.2f} × / {cell[1]:.2f}"
