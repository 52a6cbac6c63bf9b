"""What N means: a drawing of where the drafter's output enters the target, and its text."""

from __future__ import annotations

from demo.common.drawing import box, line, svg, text

SLABS = 4  # of the target's last layers are drawn one by one
TOP, STEP, TALL = 84, 30, 24  # of the slabs: where the last layer stands, from one to the next
LEFT, RIGHT, WIDE = 8, 240, 124  # columns of target and drafter
MIDDLE = 166  # where LSA stands
CA, SA, EMBED = 228, 272, 308  # heights of the drafter's parts
WRONG = (
    "A larger N is not always faster. Each step <em>adds</em> a target layer to every draft level: "
    "acceptance rises, and drafting slows down. Each N has its own trained drafter. The text is "
    "the target’s own for every N."
)
KEY = (
    "Orange: parts of the target that the drafter also uses. Dashed blue: parts trained for the "
    "drafter: layer self-attention (LSA), self-attention (SA) and cross-attention (CA)."
)


def drawing_html(tli: int) -> str:
    words = f"<p><small>{KEY}</small></p><p>{explanation(tli)}</p><p>{WRONG}</p>"
    caption = f'<figcaption class="note">{words}</figcaption>'
    return f'<figure class="tli-drawing">{layers(tli)}{caption}</figure>'


def explanation(tli: int) -> str:
    if not tli:
        return (
            "<b>N = 0.</b> CA’s output goes straight into the target’s head. No layer of the "
            "target runs while drafting."
        )
    which = "last layer" if tli == 1 else f"last {tli} layers"
    reads = "It reads its" if tli == 1 else "They read their"
    return (
        f"<b>N = {tli}.</b> CA’s output passes through the target’s {which} (same weights), "
        f"once per draft level. {reads} own K and V of the verified text and of the drafts "
        "so far. The target’s norm and head follow."
    )


def layers(tli: int, name: str = "layers") -> str:
    """The drawing alone. name: no other drawing's on the page."""
    last = (
        "no target layer" if not tli else f"the target's last {tli} layer{'s' if tli > 1 else ''}"
    )
    return svg(
        name, f"What N = {tli} means",
        f"From CA the draft goes through {last} to the target's head.", 352,
        *_target(tli), *_drafter(tli), *_between(tli), width=372,
    )  # fmt: skip


def _slabs(x: float, kinds: list[str]) -> list[str]:
    """One layer of each kind, from the last, layer L, down."""
    return [
        _part(x, TOP + STEP * place, f"layer L−{place}" if place else "layer L", kind)
        for place, kind in enumerate(kinds)
    ]


def _target(tli: int) -> list[str]:
    """The target's column: its head, its last layers, and one box for the rest."""
    middle, kinds = LEFT + WIDE / 2, ["bonus"] * tli + ["sure"] * (SLABS - tli)
    return [
        text(middle, 12, "Target", "middle title"),
        _part(LEFT, 22, "head", "bonus"),
        _part(LEFT, 52, "norm", kinds[0]),
        *_slabs(LEFT, kinds),
        text(middle, TOP + STEP * SLABS + 10, "⋮", "middle"),
        _part(LEFT, CA, "layer 1", "sure"),
        _part(LEFT, EMBED, "embeddings", "bonus"),
        line(middle, EMBED, middle, CA + TALL, "to"),
        text(middle, EMBED + 40, "verified text", "middle quiet"),
    ]


def _drafter(tli: int) -> list[str]:
    """The drafter's column: SA, CA, then N target layers and norm, or nothing, then the head."""
    middle = RIGHT + WIDE / 2
    entry = TOP + STEP * (tli - 1) + TALL if tli else 22 + TALL
    through = [_part(RIGHT, 52, "norm", "bonus"), *_slabs(RIGHT, ["bonus"] * tli)]
    return [
        text(middle, 12, "Drafter", "middle title"),
        _part(RIGHT, 22, "head", "bonus"),
        line(middle, CA, middle, entry, "to"),
        _part(RIGHT, CA, "CA", "drafter dashed"),
        line(middle, SA, middle, CA + TALL, "to"),
        _part(RIGHT, SA, "SA", "drafter dashed"),
        line(middle, EMBED, middle, SA + TALL, "to"),
        _part(RIGHT, EMBED, "embeddings", "bonus"),
        text(middle, EMBED + 40, "newest token, drafts", "middle quiet"),
        *(through if tli else [text(middle - 34, 140, "directly", "middle quiet")]),
    ]


def _between(tli: int) -> list[str]:
    """What the drafter reads from the target: LSA of all layers, and K and V of the reused ones."""
    edge, spine = LEFT + WIDE, LEFT + WIDE + 12
    mid = CA + TALL / 2
    parts = [
        f'<path class="line" d="M{edge} {TOP + 4}H{spine}V{mid}M{edge} {mid}H{spine}"/>',
        line(spine, mid, MIDDLE, mid, "to"),
        box(MIDDLE, CA, 44, "LSA", "drafter dashed", TALL),
        line(MIDDLE + 44, mid, RIGHT, mid, "to"),
        text(MIDDLE + 22, CA + TALL + 16, "K and V of", "middle quiet"),
        text(MIDDLE + 22, CA + TALL + 31, "all layers", "middle quiet"),
    ]
    for place in range(tli):
        height = TOP + STEP * place + TALL / 2
        parts.append(line(edge, height, RIGHT, height, "to bonus cut"))
    if tli:
        parts.append(text(MIDDLE + 26, TOP - 2, "K and V", "middle quiet"))
    return parts


def _part(x: float, y: float, words: str, kind: str) -> str:
    return box(x, y, WIDE, words, kind, TALL)
