"""An experiment: can parts of a prompt stay with the client, and what does that cost?

    python -m moa_core.bench.spans [--limit 4] [--out FILE]

Some tokens of each prompt are marked as private. The client's drafter reads them; the server gets
something else in their place, and nothing more: the K and V that the target makes of the prompt
are then its own. Two ways of hiding:

placeholder  one and the same token for every private one
noise s      their embeddings, with normal noise of s times the embeddings' own spread added

For each: what the server still finds out (a Bayesian guess from left to right, by its own
probability of each token after what it has guessed, and by how far the noisy embedding lies from
that token's), and what hiding costs: acceptance length, and how much of the answer is the one that
the target gives to the open prompt.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from moa_core.bench.suites import load_suite, readable
from moa_core.checkpoints import load_drafter, load_target
from moa_core.decode import Settings, decode
from moa_core.drafters.base import Drafter
from moa_core.modules import Matrix
from moa_core.target import Target
from moa_core.text import tokenizer_of
from moa_core.trace import Trace
from moa_core.verifier import Beside

SHARE, LONGEST = 0.2, 4  # of the words' tokens are private, in spans of at most so many
NOISE = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
METHODS = ("moa-n1", "eagle2", "independent")
FILLER = " something"


@dataclass(frozen=True)
class Outcome:
    """One way of hiding, one method, over all prompts.

    guessed  share of private tokens that the server's guess gets right; None: it is told them
    tau      acceptance length
    kept     share of the answer before its first token that the open prompt's answer has not
    same     share of answers that are the open prompt's
    """

    hiding: str
    method: str
    guessed: float | None
    tau: float
    kept: float
    same: float


class Veil(nn.Module):
    """The target's embeddings, but for the private places of one prompt."""

    def __init__(self, embed: Matrix, places: Sequence[int], hidden: Tensor, length: int):
        super().__init__()
        self.weight = embed.weight
        self._embed, self._places, self._hidden, self._length = embed, places, hidden, length

    def forward(self, ids: Tensor) -> Tensor:
        """[1, n] -> [1, n, E]; the prompt is known by its length, as it comes first and whole."""
        embedded = self._embed(ids)
        if ids.shape[1] == self._length:
            embedded = embedded.clone()
            embedded[0, self._places] = self._hidden
        return embedded


def private_places(ids: Sequence[int], target: Target, seed: int) -> list[int]:
    """Places of a prompt that are private: spans of word tokens, a fifth of them in all."""
    special = set(tokenizer_of(target).all_special_ids)
    words = [place for place, token in enumerate(ids) if token not in special and place > 0]
    draw = random.Random(seed)
    marked: set[int] = set()
    while len(marked) < SHARE * len(words):
        start = draw.choice(words)
        marked |= set(range(start, start + draw.randint(1, LONGEST))) & set(words)
    return sorted(marked)


def hide(ids: Sequence[int], places: Sequence[int], target: Target, noise: float | None) -> Tensor:
    """What the server gets for the private places [m, E]. noise None: the placeholder."""
    weight = target.embed.weight
    if noise is None:
        filler = tokenizer_of(target).encode(FILLER)[-1]
        return weight[filler].expand(len(places), -1)
    true = weight[[ids[place] for place in places]]
    made = torch.Generator().manual_seed(sum(ids))
    return true + noise * weight.std() * torch.randn(true.shape, generator=made).to(true)


@torch.inference_mode()
def guess(
    ids: Sequence[int], places: Sequence[int], hidden: Tensor, target: Target, noise: float | None
) -> list[int]:
    """What the server takes the private tokens for, one after the other."""
    weight, text, found = target.embed.weight.float(), list(ids), []
    for place, seen in zip(places, hidden.float(), strict=True):
        logits, _ = target.fork().prefill(text[:place], place + 1)
        score = logits.float().log_softmax(-1)
        if noise is not None:
            spread = max(noise * float(weight.std()), 1e-3)
            score = score - ((weight - seen) ** 2).sum(-1) / (2 * spread**2)
        text[place] = int(score.argmax())  # what follows is guessed as if this were right
        found.append(text[place])
    return found


def answer(
    target: Target, drafter: Drafter, ids: Sequence[int], count: int, veiled: Target | None = None
) -> Trace:
    """The greedy text after a prompt; veiled: of a target that does not see all of it."""
    settings = Settings(count, drafter.tree, eos_ids=target.eos_ids)
    server = Beside((veiled or target).fork(drafter.precision), drafter)
    return Trace(events=list(decode(target, drafter, ids, settings, remote=server)))


def experiment(
    target: Target, drafters: Sequence[Drafter], prompts: Sequence[Sequence[int]], count: int
) -> Iterator[Outcome]:
    """Every way of hiding, for every drafter; the open prompts first."""
    open_ = {one.name: [answer(target, one, ids, count) for ids in prompts] for one in drafters}
    for one in drafters:
        yield _outcome("open", one.name, None, open_[one.name], open_[one.name])
    for noise in (None, *NOISE[1:]):
        right = total = 0
        veils = []
        for number, ids in enumerate(prompts):
            places = private_places(ids, target, number)
            hidden = hide(ids, places, target, noise)
            guessed = guess(ids, places, hidden, target, noise)
            right += sum(ids[place] == token for place, token in zip(places, guessed, strict=True))
            total += len(places)
            veiled = target.fork()
            veiled.embed = cast(Matrix, Veil(target.embed, places, hidden, len(ids)))
            veils.append(veiled)
        name = "placeholder" if noise is None else f"noise {noise:g}"
        for one in drafters:
            traces = [
                answer(target, one, ids, count, veiled)
                for ids, veiled in zip(prompts, veils, strict=True)
            ]
            yield _outcome(name, one.name, right / total, traces, open_[one.name])


def _outcome(
    hiding: str, method: str, guessed: float | None, traces: list[Trace], plain: list[Trace]
) -> Outcome:
    lengths = [length for trace in traces for length in trace.accepted_lengths]
    kept = [
        common(one.output_ids, other.output_ids) / max(len(other.output_ids), 1)
        for one, other in zip(traces, plain, strict=True)
    ]
    same = [one.output_ids == other.output_ids for one, other in zip(traces, plain, strict=True)]
    count = len(traces)
    return Outcome(
        hiding, method, guessed, sum(lengths) / len(lengths), sum(kept) / count, sum(same) / count
    )


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with in common."""
    for place, (here, there) in enumerate(zip(one, other, strict=False)):
        if here != there:
            return place
    return min(len(one), len(other))


def main() -> None:
    """Measure, print a table, write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=4, help="prompts of each kind of the suite")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    target = load_target()
    _, prompts = readable(load_suite("bundled", options.limit), target)
    drafters = [load_drafter(name, target) for name in METHODS]
    rows = []
    print(f"{'hiding':12} {'method':12} {'guessed':>8} {'tau':>6} {'kept':>6} {'same':>6}")
    for row in experiment(target, drafters, prompts, options.max_new_tokens):
        rows.append(asdict(row))
        guessed = "-" if row.guessed is None else f"{row.guessed:.1%}"
        print(
            f"{row.hiding:12} {row.method:12} {guessed:>8} {row.tau:6.2f} {row.kept:6.1%} "
            f"{row.same:6.1%}",
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps({"prompts": len(prompts), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
