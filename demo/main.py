"""The page in the browser: run this, then open the address that it prints."""

import gc
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from moa_core.errors import UserError


def main(arguments: Sequence[str]) -> None:
    """`moa demo`: called by the entry point of an installed package."""
    _, launch = opened(arguments, "moa demo")
    launch()


def opened(arguments: Sequence[str], program: str | None = None) -> tuple[Any, Callable[[], None]]:
    """The page, and a function that serves it and waits. MOA_OPTIONS come before the arguments.

    Ends the process with a sentence for a user's mistake.
    """
    # The imports make some 900,000 permanent objects, which Python's garbage collector would
    # scan again and again.
    gc.disable()

    import gradio  # noqa: F401  first, so that an installation without the page fails here

    from demo import space, zero
    from demo.access import check_host, check_port, door
    from demo.arguments import engine_of, options
    from demo.ui import build_demo, launch_options
    from moa_core.loading.load import pick_device
    from moa_core.runtime import quiet

    quiet()
    parser = options(__doc__, program)
    try:
        more = shlex.split(os.environ.get("MOA_OPTIONS", ""))
    except ValueError as error:
        parser.error(f"MOA_OPTIONS cannot be read as options: {error}.")
    args = parser.parse_args([*more, *arguments])
    preset, note = space.chosen_preset(os.environ, pick_device("auto").type == "cuda")
    args.preset = args.preset or (None if args.target else preset)
    try:
        waiting = space.number(os.environ, "MOA_QUEUE")
        password = args.password or os.environ.get("MOA_PASSWORD", "")
        check_port(port := args.port)
        where = door(args.host, password, args.open_to_all, os.environ)
        check_host(where["server_name"])
        engine = engine_of(args)
        zero.hold(engine)
        page = build_demo(engine, note)
    except UserError as error:
        parser.error(str(error))
    gc.freeze()  # collect from here on, but skip the permanent objects
    gc.enable()

    def launch() -> None:
        engine.start()  # in the background: the page is up before the models are
        page.queue(max_size=waiting).launch(server_port=port, **where, **launch_options(engine))

    return page, launch
