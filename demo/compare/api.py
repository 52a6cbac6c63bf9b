"""The public endpoint `compare`: one prompt through several methods, measured in turns.

Annotations stay unquoted here: gradio reads the outputs from them.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import gradio as gr

from demo.compare.rows import record, rows
from demo.compare.run import Comparison, Plan, compare
from demo.compare.verdict import verdict
from demo.engine import Engine
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError


def add_compare(engine: Engine) -> None:
    """Publish `compare`, which waits for its turn like the page's own runs."""

    def compare_methods(
        prompt: str,
        methods: list[str],
        repeats: int = 3,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """Run a prompt through several methods. They take turns, so each has the machine to itself.
        Trees are sized automatically.

        prompt          the text that the target answers
        methods         2 to 4 of moa-n0, moa-n1, ..., eagle2, ..., ngram, vanilla
        repeats         counted runs of each method, 1 to 5
        max_new_tokens  up to 512
        temperature     0 is greedy
        seed            of the draws, at a temperature above 0

        Streams its progress: {phase, method, share, repeat, repeats, run, runs}. phase is warm-up
        or plain (neither is counted), or run; share is the share done, 0 to 1. The last value is
        {"rows": [{method, tau, tokens_per_second, decode_tokens_per_second, ms_per_token,
        target_calls, acceptance_rate, same_text_as_plain, differs_from_token, logit_gap_there,
        speedup_over_vanilla, ...}],
        "verdict": words}, with these four figures also as _low and _high over the repeats.
        tokens_per_second is over the whole run; decode_... and ms_per_token exclude the prefill.
        """
        try:
            plan = Plan(
                prompt, tuple(map(engine.named, methods)), repeats, max_new_tokens,
                Sampling(temperature, seed=seed),
            )  # fmt: skip
            yield from answers(engine, plan)
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from error

    gr.api(compare_methods, api_name="compare", concurrency_id="model", concurrency_limit=1)


def answers(engine: Engine, plan: Plan) -> Iterator[dict[str, Any]]:
    """A plan's progress, then its rows and verdict."""
    comparison = Comparison(plan=plan)
    for progress in compare(engine, comparison):
        yield asdict(progress)
    found = rows(comparison)
    yield {"rows": [record(row) for row in found], "verdict": " ".join(verdict(found))}
