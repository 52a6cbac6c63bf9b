"""The one public endpoint of the page: a prompt in, text and figures out.

Annotations stay unquoted here: gradio reads the outputs from them.
"""

from typing import Any

import gradio as gr

from demo.session import Engine, Request
from demo.trace_view import stats
from moa_core.errors import UserError
from moa_core.verify import Sampling


def add_api(engine: Engine) -> None:
    """Publish `generate`, which waits for its turn like the page's own runs."""
    default_method, default_tli = engine.default

    def generate(
        prompt: str,
        method: str = default_method,
        tli: int = default_tli,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> tuple[str, dict[str, Any]]:
        """Decode a prompt; returns the text and {tokens, rate, tau, calls, reason, ...}."""
        try:
            sampling = Sampling(temperature, seed=seed)
            return answer(engine, Request(prompt, method, tli, max_new_tokens, None, sampling))
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from error

    gr.api(generate, api_name="generate", concurrency_id="model", concurrency_limit=1)


def answer(engine: Engine, request: Request) -> tuple[str, dict[str, Any]]:
    """Run a request to its end: the text, and its figures."""
    run = engine.prepare(request)
    for _ in run.events:
        pass
    text = run.target.tokenizer.decode(run.trace.output_ids, skip_special_tokens=True)
    return text, {**stats(run.trace), "reason": run.trace.reason}
