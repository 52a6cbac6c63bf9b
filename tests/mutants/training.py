"""Breaks of training: what a drafter sees and what it is told."""

from tests.mutants.mutant import Mutant

MASKS = ("train/test_masks.py",)
PARITY = ("train/test_parity_training.py",)
DRAFTING = ("train/test_training_is_drafting.py", "train/test_parity_training.py")
PEERS = ("drafters/test_peers.py",)
LOSSES = ("train/test_losses.py",)

MUTANTS = (
    Mutant(
        "a root sees its own memory",
        "train/masks.py", "same & (column < row)", "same & (column < row + 1)", MASKS,
    ),
    Mutant(
        "TLI's true and drafted K and V change places",
        "train/masks.py", "torch.cat([before, since], -1)", "torch.cat([since, before], -1)", MASKS,
    ),
    Mutant(
        "the loss counts at a document's first token",
        "train/masks.py", "reply = batch.response & (batch.positions > 0)",
        "reply = batch.response", MASKS,
    ),
    Mutant(
        "blocks are one longer than asked for",
        "train/masks.py", "torch.randint(low, high + 1,", "torch.randint(low + 1, high + 2,", MASKS,
    ),
    Mutant(
        "a document's first token has no boundary",
        "train/masks.py", "alone = ~batch.response | (batch.positions == 0)",
        "alone = ~batch.response", MASKS,
    ),
    Mutant(
        "the staircase is upside down",
        "train/masks.py", "None], since, same)", "None], same, since)", MASKS,
    ),
    Mutant(
        "positions do not start anew in a document",
        "train/batches.py", "return places - torch.where(first, places, 0).cummax(1).values",
        "return places", MASKS,
    ),
    Mutant(
        "a row sees its future",
        "train/batches.py", "device=segment.device).tril())", "device=segment.device))", MASKS,
    ),
    Mutant(
        "drafted K and V come before the true ones",
        "train/losses.py", "torch.cat([true_keys, keys], 2)", "torch.cat([keys, true_keys], 2)",
        DRAFTING,
    ),
    Mutant(
        "what enters TLI counts twice",
        "train/losses.py", "0.5 * feature + 0.5 * entering", "0.5 * feature + entering", PARITY,
    ),
    Mutant(
        "the two losses change weights",
        "train/losses.py", "cross_entropy: float = 0.1", "cross_entropy: float = 1.0", PARITY,
    ),
    Mutant(
        "a loss's gradient is not scaled",
        "train/losses.py", "(gradients * gradient)", "(gradients)", LOSSES,
    ),
    Mutant(
        "the last part of a loss is left out",
        "train/losses.py", "range(0, len(drafted), most :=", "range(0, len(drafted) - 1, most :=",
        LOSSES,
    ),
    Mutant(
        "EAGLE is shown each token's own feature",
        "train/losses.py", "features = lesson.hidden[:, :-1]", "features = lesson.hidden[:, 1:]",
        DRAFTING,
    ),
    Mutant(
        "EAGLE's noise is not around zero",
        "train/losses.py", "batch.numbers()) - 0.5", "batch.numbers())", DRAFTING,
    ),
    Mutant(
        "EAGLE is told what follows the token before",
        "train/losses.py", "lesson.verdicts.after(1), loss)",
        "Verdicts(lesson.hidden[:, :-1], lesson.verdicts.head), loss)", DRAFTING,
    ),
    Mutant(
        "GLIDE is taught with the first layer",
        "train/peer_losses.py", "lesson.tail.keys[-1]", "lesson.tail.keys[0]", PEERS,
    ),
    Mutant(
        "a Medusa head is taught a place too far",
        "train/peer_losses.py", "shift = head + 1", "shift = head + 2", PEERS,
    ),
    Mutant(
        "TLI is taught from one layer too late",
        "train/teacher.py", "left := len(target.layers) - index)",
        "left := len(target.layers) - index + 1)", DRAFTING,
    ),
    Mutant(
        "the warm-up is skipped",
        "train/schedule.py", "if update < warmup:", "if update < 0:", ("train/test_loop.py",),
    ),
)  # fmt: skip
