"""The demo in the browser: run this, then open the address that it prints."""

import argparse
import os
import shlex
import sys

from demo.common import start  # first: what follows is large

# isort: split
from demo import space, zero
from demo.access import door
from demo.arguments import add_models, engine_of
from demo.ui import build_demo, launch_options
from moa_core.arguments import add_token, token_of
from moa_core.errors import UserError
from moa_core.link.connection import Address
from moa_core.loading.checkpoints import pick_device

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--host", help="address to listen on (default: this machine only)")
parser.add_argument("--port", type=int, help="default: the first free one from 7860")
parser.add_argument(
    "--password",
    help="what visitors must say; better in MOA_PASSWORD, as others can see a command line",
)
parser.add_argument("--open-to-all", action="store_true", help="no password where others come")
add_models(parser)
parser.add_argument("--server", help="ws://host:port for runs over a link (default: one of ours)")
add_token(parser, "what the server wants to be told")
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
    address = Address(args.server, token_of(args)) if args.server else None
    demo = build_demo(engine, address, chosen.words)
except UserError as error:
    parser.error(str(error))
start.done()

if __name__ == "__main__":
    engine.start()  # in the background: the page is up before the models are
    demo.queue(max_size=waiting).launch(server_port=args.port, **opened, **launch_options())
