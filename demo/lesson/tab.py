"""How it works: a guided tour for a class, with real runs."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import chain
from typing import Any

import gradio as gr

from demo.common.elements import component, say, status_line, words
from demo.common.figures import many
from demo.common.methods import RIVAL, label
from demo.lesson.pictures import PICTURES
from demo.lesson.run import TRIALS, drawn, first_cycles, request, telling
from demo.lesson.text import ARXIV, GLOSSARY, PRESSED, PROMPT, REFERENCES, STEPS, Step, address
from demo.live.recording import recording
from demo.results.tab import ours
from demo.session import Shared, connect
from demo.tli.drawing import layers
from demo.tli.stops import STOPS
from demo.worker import Stop
from moa_core.bench.records import phase_times

ID, TITLE = "how", "How it works"
UNCHECKED = "This tree is not checked yet: press the button."


def build(shared: Shared) -> None:
    words(_overview(), elem_id="how-overview")
    prompt, parts = None, {}
    for number, step in enumerate(STEPS, 1):
        name, draw = step.trial, PICTURES.get(step.id)
        with gr.Column(elem_classes="how-step", elem_id=f"how-{step.id}"):
            with gr.Row(equal_height=False):
                with gr.Column(min_width=300):
                    words(_lesson(number, step))
                    if name:
                        prompt = prompt or gr.Textbox(
                            PROMPT, label="Prompt for the examples on this page", lines=1,
                            max_lines=4, elem_id="how-prompt",
                        )  # fmt: skip
                        said, value = _recorded(name)
                        parts[name] = _controls(name, said)
                with gr.Column(min_width=300):
                    if draw:
                        words(f"<figure>{draw()}</figure>")
                    else:
                        parts[name] += (_drawn(name, value),)
            words(_question(step))
    words(_after(), elem_id="how-after")
    for name in parts:
        _connect(shared, prompt, name, parts)


def _controls(name: str, said: str) -> tuple[gr.Button, gr.Button, gr.HTML]:
    with gr.Row():
        run = gr.Button(TRIALS[name], variant="primary", size="md", scale=0, min_width=210,
                        elem_id=f"how-{name}-run")  # fmt: skip
        stop = gr.Button("Stop", interactive=False, size="md", scale=0, min_width=90,
                         elem_id=f"how-{name}-stop")  # fmt: skip
    status = status_line(said, elem_id=f"how-{name}-status", elem_classes="how-status")
    return run, stop, status


def _drawn(name: str, value: str) -> gr.HTML:
    template = '<div class="how-tree" hidden></div>'
    return component(template, "lesson/tree.js", value, elem_id=f"how-{name}-result")


def _recorded(trial: str) -> tuple[str, str]:
    """What a trial shows first: a recorded run's cycle, in words and drawn, if there is one."""
    kept = recording()
    if not kept:
        return "", ""
    run, at = telling(kept.trace, kept.cut)
    return f"Recorded, with the prompt “{run.about['prompt']}”", drawn(trial, run, at)


def _connect(
    shared: Shared, prompt: gr.Textbox | None, pressed: str, parts: dict[str, tuple[Any, ...]]
) -> None:
    """Connect a trial's buttons. Its run is drawn in its step and in those before it: drafting does
    not show what verifying is about to, where the same tree waits for its check."""
    run, stop, *_ = parts[pressed]
    at = [*parts].index(pressed)
    names, later = [*parts][at::-1], [*parts][at + 1 :]  # its own status line comes first

    def work(stop: Stop, *asked: str) -> Iterator[tuple[Any, ...]]:
        trace = first_cycles(shared.engine.prepare(request(shared.engine, *asked), stop))
        at = telling(trace)[1]
        said = f"Just done. Shown: cycle {at + 1} of your run, one draft and its check."
        shown = [(say(said, "done"), drawn(name, trace, at, name == pressed)) for name in names]
        unchecked = drawn("draft", trace, at)
        yield tuple(chain(*shown, *((say(UNCHECKED), unchecked) for _ in later)))

    outputs = chain(*(parts[name][2:] for name in (*names, *later)))
    connect(shared, run, stop, work, [prompt, shared.target], list(outputs))


def for_class() -> list[dict[str, Any]]:
    """The steps of class mode, with pictures of what cannot be seen on the stage, those of the step
    about N by N, and what a benchmark says of the drafters that a step compares."""
    unseen = {
        "observing": [PICTURES["observing"]()],
        "tli": [layers(stop, "tli") for stop in STOPS],
    }
    compared = {"observing": (RIVAL, "moa-n0"), "tli": ("moa-n0", "moa-n3")}
    shown = ("id", "title", "ask", "task", "question", "answer")
    return [
        {name: getattr(step, name) for name in shown}
        | {"pictures": unseen.get(step.id, []), "recorded": _gains(compared.get(step.id, ()))}
        for step in STEPS
    ]


def _gains(methods: Sequence[str]) -> dict[str, Any] | None:
    """Rows of live/ran.js, with a name: tokens and milliseconds a call, those of drafting, and
    those a token. Of the first recording of Benchmarks that has all; None without one."""
    made = next((one for one in ours() if {*methods} <= one.methods.keys()), None)
    if not made or not methods:
        return None
    found, rows = made.methods, []
    for method in methods:
        spent, tau = phase_times(found[method]), found[method]["tau"]
        whole = sum(spent.values())
        times = (whole, spent["draft"], whole / tau)
        rows.append([label(method), f"{tau:.2f}", *(f"{time:.0f}" for time in times)])
    prompts = many(found[methods[0]]["prompts"], "prompt")
    guesses = " to ".join(sorted({f"{found[one]['drafts_per_cycle']:.0f}" for one in methods}))
    about = f"Recorded, {made.machine}: {prompts}, about {guesses} guesses a call."
    name = f"{about} Compare these rows only with each other."
    return {"rows": rows, "name": name}


def _overview() -> str:
    steps = "".join(
        f'<li>{number} <a href="#how-{step.id}">{escape(step.title)}</a></li>'
        for number, step in enumerate(STEPS, 1)
    )
    about = (
        "Seven short steps, each with a question: open it for the answer. Steps 1 to 4 tell "
        "the idea; 5 to 7 look into the models."
    )
    return f"<p>{about}</p><nav aria-label='Steps'><ol>{steps}</ol></nav>"


def _lesson(number: int, step: Step) -> str:
    links = "".join(
        f'<p class="how-links"><a class="how-link quiet-button" href="{escape(address(link))}" '
        f'data-press="{PRESSED.get(link["tab"], "")}">{escape(link["words"])} →</a></p>'
        for link in step.links
    )
    return (
        f'<h2><span class="how-number">{number}</span> {escape(step.title)}</h2>'
        f'<p class="how-body">{escape(step.text)}</p>'
        f'<p class="how-lead"><b>Try it.</b> {escape(step.lead)}</p>{links}'
    )


def _question(step: Step) -> str:
    return (
        '<details class="how-question"><summary><b>Check:</b> '
        f"{escape(step.question)}</summary><p>{escape(step.answer)}</p></details>"
    )


def _after() -> str:
    terms = "".join(
        f"<div><dt>{escape(word)}</dt><dd>{escape(means)}</dd></div>" for word, means in GLOSSARY
    )
    papers = "".join(
        f'<li><a href="{ARXIV}{number}" target="_blank" rel="noopener">{escape(title)}</a> '
        f"({number}): {escape(why)}</li>"
        for number, title, why in REFERENCES
    )
    return (
        f'<details class="how-glossary"><summary>Glossary</summary><dl>{terms}</dl></details>'
        f'<details class="how-references"><summary>References, and newer methods</summary>'
        f"<p>All on arXiv; a link opens a new tab.</p><ul>{papers}</ul></details>"
    )
