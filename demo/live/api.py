"""The public endpoint `decode`: streams a prompt's text and figures.

Annotations stay unquoted here: gradio reads the outputs from them.
"""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from demo.common.figures import drafts
from demo.common.tokens.view import paced
from demo.engine import FIXED_TREE, Engine, Request
from moa_core.decoding.trace import Trace, Verified
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.names import matched
from moa_core.errors import UserError

INTERVAL = 0.2  # seconds between answers of a stream


def add_decode(engine: Engine) -> None:
    """Publish `decode`, which waits in the queue like the page's own runs."""
    default = engine.default()

    def decode(
        prompt: str,
        method: str = default,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        depth: int = 0,
        breadth: int = 0,
        budget: int = 0,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Decode a prompt speculatively. Streams the text and the figures so far.

        method: moa-n0 ... moa-n3, eagle2, eagle3, tandem, these also with +ngram as in
        moa-n0+ngram; medusa, ngram, vanilla (none also means vanilla).
        temperature 0 is greedy; top_p 1 is off. depth, breadth and budget set the draft tree's
        shape. 0 means the page's value; if all three are 0, each cycle's tree is sized
        automatically.

        Figures: tokens, rate (tokens per second, prefill included), decode_rate (prefill left
        out), tau (tokens gained per target call after the prefill, bonus included), acceptance
        (accepted drafts over drafted nodes), drafted, nodes (drafted per cycle), calls (target
        calls), cycles, prefill (seconds), shares (of the time after the prefill, by phase),
        draft_precision (int8, or the target's format; null without a network) and, in the last
        answer, reason (eos, length, context).
        """
        try:
            method = matched(method, engine.methods()) or method
            tree = TreeSettings(
                depth or FIXED_TREE.depth,
                breadth or FIXED_TREE.breadth,
                budget or FIXED_TREE.budget,
            )
            sampling = Sampling(temperature, top_p, seed=seed)
            chosen = tree if depth or breadth or budget else AUTO
            request = Request(prompt, method, max_new_tokens, chosen, sampling)
            yield from answers(engine, request)
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from error

    gr.api(decode, api_name="decode", concurrency_id="model", concurrency_limit=1)


def answers(engine: Engine, request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """A request's text and figures so far, at most every `INTERVAL` seconds and at the end."""
    run = engine.prepare(request)
    for _ in paced(run.events, INTERVAL):
        text = run.target.tokenizer.decode(run.trace.output_ids, skip_special_tokens=True)
        yield text, figures(run.trace)


def figures(trace: Trace) -> dict[str, Any]:
    after = {phase: trace.seconds.get(phase, 0.0) for phase in ("draft", "verify", "other")}
    spent, cycles = sum(after.values()), len(trace.of(Verified))
    drafted, accepted = drafts(trace)
    found = {
        "tokens": len(trace.output_ids),
        "rate": trace.tokens_per_second,
        "decode_rate": trace.decode_tokens_per_second,
        "tau": trace.tau,
        "acceptance": accepted / drafted if drafted else None,
        "drafted": drafted,
        "nodes": drafted / cycles if cycles else None,
        "calls": trace.target_calls,
        "cycles": cycles,
        "prefill": trace.seconds.get("prefill", 0.0),
    }
    shares = {phase: round(value / spent, 4) for phase, value in after.items()} if spent else None
    return {
        **{name: value and round(value, 4) for name, value in found.items()},
        "shares": shares,
        "draft_precision": trace.about["machine"]["draft_precision"],
        **({"reason": trace.reason} if trace.reason else {}),
    }
