"""What a target call costs by its number of tokens, in float32 and in int8, and what int8 changes.

python -m moa_core.bench.cost. Both precisions take turns, so a change of the machine's speed
affects both alike.
"""

import argparse
from statistics import median
from time import perf_counter

import torch

from moa_core.bench.suites import load_suite, suite_ids
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import DraftTree
from moa_core.drafters.base import Vanilla
from moa_core.engine import accelerate
from moa_core.loading.load import load_target
from moa_core.model.target import Target

PROMPT, LENGTH = 500, 64  # tokens: of a timed prompt; of an answer


def chain(ids: list[int]) -> DraftTree:
    return DraftTree.chain(ids[0], ids[1:], [0.0] * (len(ids) - 1))


def call_ms(target: Target, ids: list[int], count: int) -> float:
    """A call for `count` tokens after those in the cache, or for a prompt of that many."""
    run, tree = target.fork() if count == PROMPT else target, chain(ids[:count])
    start = perf_counter()
    run.prefill(ids[:count], PROMPT + 2) if count == PROMPT else run.verify(tree)
    return 1e3 * (perf_counter() - start)


def apart(targets: list[Target], prompts: list[list[int]]) -> str:
    """How far the second target is from the first, on the text that the first writes."""
    divergence, same, count, plain = 0.0, 0, 0, Vanilla()
    for ids in prompts:
        text = Trace(events=list(decode(targets[0], plain, ids, Settings(LENGTH)))).output_ids
        logits = []
        for target in targets:
            first, _ = target.prefill(ids, len(ids) + LENGTH + 2)
            logits.append(torch.cat([first[None], target.verify(chain(text))[:-1]]).log_softmax(-1))
        divergence += float((logits[0].exp() * (logits[0] - logits[1])).sum())
        same += int((logits[0].argmax(-1) == logits[1].argmax(-1)).sum())
        count += len(text)
    return f"KL {divergence / count:.4f}, same first choice {same / count:.1%} of {count}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", help="default: smollm2-135m")
    parser.add_argument("--tokens", default=f"1,2,4,8,12,16,24,32,{PROMPT}", help="of a call")
    parser.add_argument("--past", type=int, default=200, help="tokens in the cache")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--quality", action="store_true", help="also how far int8 is from float32")
    parser.add_argument("--limit", type=int, default=8, help="prompts of MT-bench for it")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    target = load_target(options.target, "float32", "cpu")
    targets, first = [target, accelerate(target, int8=True)], dict[str, float]()
    counts = [*map(int, options.tokens.split(","))]
    past, seeded = options.past, torch.Generator().manual_seed(0)
    most = max(PROMPT, past, *counts)
    ids = torch.randint(100, 1000, (most,), generator=seeded).tolist()
    with torch.inference_mode():
        for one in targets:
            one.prefill(ids[:past], past + most)
        for count in counts:
            times = [[call_ms(one, ids, count) for one in targets] for _ in range(options.repeats)]
            for one, own in zip(targets, zip(*times, strict=True), strict=True):
                base = first.setdefault(one.precision, median(own))
                print(f"{one.precision:8} {count:3} tokens {median(own):7.1f} ms", end="")
                print(f" {median(own) / base:6.2f} x the first", flush=True)
    if options.quality:
        prompts = suite_ids(load_suite("mt_bench", options.limit)[: options.limit], target)
        with torch.inference_mode():
            print("int8 to float32:", apart(targets, prompts))


if __name__ == "__main__":
    main()
