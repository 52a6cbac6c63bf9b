"""The drawings of "How it works". Their words are made up, not a model's."""

from collections.abc import Callable
from functools import partial

from demo.common.drawing import box, brace, line, svg, text
from demo.tli.drawing import layers


def lossless() -> str:
    words = ("the", "old", "man", "went", "home", "again")

    def row(y: float, kinds: tuple[str, ...]) -> str:
        return "".join(
            box(6 + 58 * at, y, 54, word, kind)
            for at, (word, kind) in enumerate(zip(words, kinds, strict=True))
        )

    alone = "".join(brace(8 + 58 * at, 58 + 58 * at, 58, str(at + 1)) for at in range(6))
    return svg(
        "lossless", "The same text in fewer target calls",
        "Above, the target alone writes six tokens in six calls. Below, with a drafter, the "
        "same six tokens take two calls: each gains two accepted drafts and a bonus. The first "
        "call also rejects a wrong draft, “dog”: the target’s own token takes its place.",
        244, text(6, 18, "target alone: six calls"), row(28, ("sure",) * 6), alone,
        text(6, 120, "with a drafter: two calls, the same words"),
        row(130, ("accepted", "accepted", "bonus") * 2),
        box(122, 162, 54, "dog ✗", "rejected"),
        brace(8, 174, 192, "1: two drafts ✓, one ✗, bonus"),
        brace(182, 348, 192, "2: two drafts ✓, bonus"),
    )  # fmt: skip


def observing() -> str:
    layers = ("layer 1: K, V", "layer 2: K, V", "⋮", "last layer: K, V")
    stack = "".join(box(128, 164 - 34 * at, 104, name, "sure")
                    for at, name in enumerate(layers))  # fmt: skip
    rays = "".join(line(232, 177 - 34 * at, 252, 177 - 34 * at, "drafter") for at in range(4))
    rays += line(252, 178, 252, 74, "drafter") + line(252, 126, 280, 126, "drafter to")
    return svg(
        "observing", "What a drafter sees of one verified token",
        "The target’s layers are in the middle, with the last layer’s output on top. "
        "EAGLE-2, on the left, reads this one vector. LSA, on the right, reads the keys and "
        "values of all layers and condenses them into one vector, the memory, which MoA reads.",
        220, text(180, 14, "target, one token", "middle quiet"),
        box(128, 24, 104, "its output", "sure"), stack, line(180, 62, 180, 50, "to"), rays,
        line(128, 37, 76, 37, "to"), box(6, 24, 70, "EAGLE-2"),
        text(41, 66, "one layer", "middle quiet"), text(317, 90, "layer self-", "middle quiet"),
        text(317, 105, "attention", "middle quiet"), box(280, 113, 74, "LSA", "drafter"),
        line(317, 139, 317, 178, "to"), text(288, 163, "memory", "middle quiet"),
        box(280, 178, 74, "MoA"),
    )  # fmt: skip


def training() -> str:
    words = ("I", "am", "not", "able", "to", "help", "you", "now")
    places = *(6 + 40 * at for at in range(4)), *(174 + 46 * at for at in range(4))
    boxes = "".join(
        box(x, 88, 34 if at < 4 else 40, word, "sure" if at < 4 else "dashed")
        for at, (x, word) in enumerate(zip(places, words, strict=True))
    )
    cross = line(332, 57, 162, 57, "drafter to") + "".join(
        line(194 + 46 * at, 88, 194 + 46 * at, 57, "drafter") for at in range(4)
    )
    ends = [x + (17 if x < 174 else 20) for x in places[:-1]]
    back = line(332, 114, 332, 134) + line(332, 134, 23, 134)
    back += "".join(line(x, 134, x, 115, "to") for x in ends)
    return svg(
        "training", "Where the memory ends",
        "Four verified tokens with memory, then a boundary, then four guesses. Every guess looks "
        "through cross-attention at the memory before the boundary, and through self-attention at "
        "the text and at the guesses before it. There is no memory of the guesses.",
        196, box(6, 44, 154, "memory of these words", "drafter"), cross, boxes, back,
        line(167, 34, 167, 186, "cut"), text(167, 26, "the memory ends here", "middle quiet"),
        text(262, 50, "cross-attention (CA) reads it", "middle quiet"),
        text(262, 150, "self-attention (SA) reads words", "middle quiet"),
        brace(174, 352, 160, "guesses"), brace(6, 160, 160, "verified"),
    )  # fmt: skip


def alone() -> str:
    return svg(
        "alone", "A drafter that continues without its target",
        "Your machine with the drafter is on the left, a server with the target on the right. The "
        "connection between them is cut. The drafter keeps writing tokens that are not verified.",
        190, box(6, 20, 108, "your machine", "sure", 24), box(246, 20, 108, "server", "sure", 24),
        box(6, 54, 108, "drafter", "drafter", 34), box(246, 54, 108, "target", "bonus", 34),
        line(118, 71, 164, 71), line(196, 71, 242, 71), text(180, 78, "✗", "middle big rejected"),
        text(180, 50, "cut", "middle quiet"),
        *(box(6 + 40 * at, 120, 34, "", "sure") for at in range(3)),
        *(box(126 + 46 * at, 120, 40, "?", "dashed") for at in range(5)),
        brace(6, 120, 152, "verified"), brace(126, 350, 152, "drafted alone, not verified"),
    )  # fmt: skip


PICTURES: dict[str, Callable[[], str]] = {
    "lossless": lossless,
    "observing": observing,
    "training": training,
    "tli": partial(layers, 1, "tli"),
    "alone": alone,
}
