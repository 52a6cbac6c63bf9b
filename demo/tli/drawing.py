"""What N means: a drawing of where the drafter's output enters the target, and words beside it."""

from __future__ import annotations

SLABS = 4  # of the target's last layers are drawn one by one
TOP, STEP, TALL = 84, 30, 24  # of the slabs: where the last layer stands, from one to the next
LEFT, RIGHT, WIDE = 8, 240, 124  # columns of target and drafter
MIDDLE = 166  # where LSA stands
CA, SA, EMBED = 228, 272, 308  # heights of the drafter's parts
ARROW = (
    '<defs><marker id="tli-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z"/></marker></defs>'
)
WRONG = (
    "A common mistake: a larger N does not mean faster. Each step <em>adds</em> a target layer to "
    "every draft level: acceptance rises, drafting slows. Each N is a drafter trained for it; the "
    "text stays the target’s own whatever N is."
)
KEY = "Orange: the target’s own parts, used by both. Blue, dashed: trained for the drafter."


def drawing_html(tli: int, layers: int | None = None) -> str:
    """The drawing for one N, as SVG, and its explanation. layers: the target's; None: not known."""
    if layers is not None and layers <= SLABS:
        layers = None  # too few to draw by number: shown like any target's
    words = f"<p><small>{KEY}</small></p><p>{explanation(tli, layers)}</p><p>{WRONG}</p>"
    return (
        f'<figure class="tli-drawing">{_svg(tli, layers)}<figcaption>{words}</figcaption></figure>'
    )


def explanation(tli: int, layers: int | None = None) -> str:
    """One N in words."""
    if not tli:
        return (
            "<b>N = 0.</b> CA’s output goes straight into the target’s head. No layer of the "
            "target runs while drafting."
        )
    which = "last layer" if tli == 1 else f"last {tli} layers"
    known = f" of {layers}" if layers else ""
    return (
        f"<b>N = {tli}.</b> CA’s output passes through the target’s {which}{known} (same weights), "
        "once per draft level. They read their own K and V of the verified text and of the drafts "
        "so far. Then come the target’s norm and head."
    )


def _svg(tli: int, layers: int | None) -> str:
    parts = [
        ARROW, *_target(tli, layers), *_drafter(tli, layers), *_between(tli),
    ]  # fmt: skip
    last = (
        "no target layer" if not tli else f"the target's last {tli} layer{'s' if tli > 1 else ''}"
    )
    label = f"N = {tli}: from CA the draft goes through {last} to the target's head."
    return (
        f'<svg viewBox="0 0 372 352" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def layer_name(place: int, layers: int | None) -> str:
    """The layer so many places below the last one: "layer 11", or "layer L−1"."""
    if layers is not None:
        return f"layer {layers - place}"
    return f"layer L−{place}" if place else "layer L"


def _target(tli: int, layers: int | None) -> list[str]:
    """The target's column: its head, the last layers one by one, the rest in one."""
    parts = [_text(LEFT + WIDE / 2, 12, "Target", "title"), _box(LEFT, 22, "head", "reused")]
    parts.append(_box(LEFT, 52, "norm", "reused" if tli else "plain"))
    for place in range(SLABS):
        kind = "reused" if place < tli else "plain"
        parts.append(_box(LEFT, TOP + STEP * place, layer_name(place, layers), kind))
    parts.append(_text(LEFT + WIDE / 2, TOP + STEP * SLABS + 10, "⋮", ""))
    parts.append(_box(LEFT, CA, "layer 1", "plain"))
    parts.append(_box(LEFT, EMBED, "embeddings", "reused"))
    parts.append(_line(LEFT + WIDE / 2, EMBED, LEFT + WIDE / 2, CA + TALL))
    parts.append(_text(LEFT + WIDE / 2, EMBED + 40, "verified text", "quiet"))
    return parts


def _drafter(tli: int, layers: int | None) -> list[str]:
    """The drafter's column: SA, CA, then N target layers and norm, or nothing, then the head."""
    middle = RIGHT + WIDE / 2
    entry = TOP + STEP * (tli - 1) + TALL if tli else 22 + TALL
    parts = [
        _text(middle, 12, "Drafter", "title"),
        _box(RIGHT, 22, "head", "reused"),
        _line(middle, CA, middle, entry),
        _box(RIGHT, CA, "CA", "own"),
        _line(middle, SA, middle, CA + TALL),
        _box(RIGHT, SA, "SA", "own"),
        _line(middle, EMBED, middle, SA + TALL),
        _box(RIGHT, EMBED, "embeddings", "reused"),
        _text(middle, EMBED + 40, "newest token, drafts", "quiet"),
    ]
    if not tli:
        parts.append(_text(middle - 8, 140, "straight on", "quiet end"))
    else:
        parts.append(_box(RIGHT, 52, "norm", "reused"))
    for place in range(tli):
        parts.append(_box(RIGHT, TOP + STEP * place, layer_name(place, layers), "reused"))
    return parts


def _between(tli: int) -> list[str]:
    """What the drafter reads of the target: LSA of all layers, and K and V of the reused ones."""
    edge, spine = LEFT + WIDE, LEFT + WIDE + 12
    mid = CA + TALL / 2
    parts = [
        f'<path class="flow" d="M{edge} {TOP + 4}H{spine}V{mid}M{edge} {mid}H{spine}"/>',
        _line(spine, mid, MIDDLE, mid),
        _box(MIDDLE, CA, "LSA", "own", 44),
        _line(MIDDLE + 44, mid, RIGHT, mid),
        _text(MIDDLE + 22, CA + TALL + 16, "K and V of", "quiet"),
        _text(MIDDLE + 22, CA + TALL + 31, "all layers", "quiet"),
    ]
    for place in range(tli):
        height = TOP + STEP * place + TALL / 2
        parts.append(_line(edge, height, RIGHT, height, "flow shared"))
    if tli:
        parts.append(_text(MIDDLE + 26, TOP - 2, "K and V", "quiet"))
    return parts


def _box(x: float, y: float, text: str, kind: str, width: float = WIDE) -> str:
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{TALL}" rx="4"/>'
    return f'<g class="box {kind}">{shape}{_text(x + width / 2, y + TALL / 2 + 4.5, text, "")}</g>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{text}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, kind: str = "flow") -> str:
    return f'<path class="{kind}" d="M{x:g} {y:g}L{to_x:g} {to_y:g}" marker-end="url(#tli-arrow)"/>'
