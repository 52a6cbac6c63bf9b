"""What N means: a drawing of where the drafter's output enters the target."""

from demo.common.drawing import box, line, svg, text

LAST = ("last", "2nd last", "3rd last")  # of the target's layers: those drawn singly
TOP, STEP, TALL = 54, 30, 24  # of the slabs: where the last layer stands, from one to the next
LEFT, RIGHT, WIDE = 8, 240, 124  # columns of target and drafter
MIDDLE = 166  # where LSA stands
OWN, EMBED = 178, 226  # heights of the drafter's own part, and of the embeddings
KEY = (
    "Orange: parts of the target that the drafter runs, too, with the same weights. Dashed blue: "
    "its own. Layer self-attention (LSA) sums up what all layers know of each token. “Its own "
    "layers” are self-attention (SA), which reads the words, then cross-attention (CA), which "
    "reads LSA’s sums."
)


def drawing_html(tli: int) -> str:
    caption = f'<figcaption class="note">{KEY}</figcaption>'
    return f'<figure class="tli-drawing">{layers(tli)}{caption}</figure>'


def layers(tli: int, name: str = "layers") -> str:
    """The drawing alone. name: no other drawing's on the page."""
    below, middle = LEFT + WIDE / 2, RIGHT + WIDE / 2
    entry = TOP + STEP * (tli - 1) + TALL if tli else 22 + TALL
    borrowed, rest = ["bonus"] * tli, ["sure"] * (len(LAST) - tli)
    return svg(
        name, f"What N = {tli} means",
        f"From CA the guess goes through {tli or 'no'} of the target's layers to its head.", 270,
        *_column(LEFT, "Target", borrowed + rest, "layer 1", "sure", "verified text"),
        text(below, TOP + STEP * len(LAST) + 16, "⋮", "middle"),
        line(middle, OWN, middle, entry, "to"),
        *_column(RIGHT, "Drafter", borrowed, "its own layers", "drafter dashed",
                 "newest token, guesses"),
        *_between(tli), width=372,
    )  # fmt: skip


def _column(x: float, name: str, slabs: list[str], own: str, kind: str, given: str) -> list[str]:
    """A model: its head, its last layers (kinds, from the last down), its own part, its input."""
    middle = x + WIDE / 2
    layers = [_part(x, TOP + STEP * place, f"{LAST[place]} layer", one)
              for place, one in enumerate(slabs)]  # fmt: skip
    return [
        text(middle, 12, name, "middle title"),
        _part(x, 22, "head: next token", "bonus"),
        *layers,
        _part(x, OWN, own, kind),
        line(middle, EMBED, middle, OWN + TALL, "to"),
        _part(x, EMBED, "embeddings", "bonus"),
        text(middle, EMBED + 40, given, "middle quiet"),
    ]


def _between(tli: int) -> list[str]:
    """What the drafter takes from the target: LSA reads all layers, and N of them are borrowed."""
    edge, spine = LEFT + WIDE, LEFT + WIDE + 12
    mid = OWN + TALL / 2
    heights = *(TOP + STEP * place + 4 for place in range(len(LAST))), mid
    from_each = "".join(f"M{edge} {height}H{spine}" for height in heights)
    parts = [
        f'<path class="line" d="M{spine} {TOP + 4}V{mid}{from_each}"/>',
        line(spine, mid, MIDDLE, mid, "to"),
        box(MIDDLE, OWN, 44, "LSA", "drafter dashed", TALL),
        line(MIDDLE + 44, mid, RIGHT, mid, "to"),
        text(MIDDLE + 22, OWN + TALL + 16, "reads all layers", "middle quiet"),
    ]
    for top in (22, EMBED, *(TOP + STEP * place for place in range(tli))):
        parts.append(line(edge, top + TALL / 2, RIGHT, top + TALL / 2, "to bonus cut"))
    parts.append(text(MIDDLE + 26, 22 + 6, "always", "middle quiet"))
    if tli:
        parts.append(text(MIDDLE + 26, TOP + 6, f"N\u00a0=\u00a0{tli}", "middle quiet"))
    return parts


def _part(x: float, y: float, words: str, kind: str) -> str:
    return box(x, y, WIDE, words, kind, TALL)
