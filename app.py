"""The demo in the browser: run this, then open the address that it prints."""

# ruff: noqa: E402  imports wait for what makes them quick
import gc
import os
import shlex
import sys

from moa_core.runtime import keep_small

# The imports make some 900,000 objects that stay for good. Python's collector of garbage would walk
# them again and again meanwhile.
gc.disable()
keep_small()  # before torch is imported

# isort: split
from demo import space, zero
from demo.access import door
from demo.arguments import engine_of, options
from demo.ui import build_demo, launch_options
from moa_core.errors import UserError
from moa_core.loading.load import pick_device

parser = options(__doc__)
given = sys.argv[1:] if __name__ == "__main__" else []
args = parser.parse_args([*shlex.split(os.environ.get("MOA_OPTIONS", "")), *given])
chosen = space.chosen_preset(os.environ, pick_device("auto").type == "cuda")
args.preset = args.preset or (None if args.target else chosen.preset)
try:
    waiting = space.number(os.environ, "MOA_QUEUE")
    password = args.password or os.environ.get("MOA_PASSWORD", "")
    opened = door(args.host, password, args.open_to_all, os.environ)
    engine = engine_of(args)
    zero.hold(engine)
    demo = build_demo(engine, chosen.words)
except UserError as error:
    parser.error(str(error))
gc.freeze()  # collect from here on, but do not walk again what is here to stay
gc.enable()

if __name__ == "__main__":
    engine.start()  # in the background: the page is up before the models are
    demo.queue(max_size=waiting).launch(server_port=args.port, **opened, **launch_options(engine))
