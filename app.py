"""The demo in the browser: run this, then open the address that it prints."""

import argparse
import os

from demo import start  # first: what follows is large
from demo.engine import Engine
from demo.theme import CSS, theme
from demo.ui import build_demo
from moa_core.errors import UserError
from moa_core.link.remote import Address

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--host", help="address to listen on (default: this machine only)")
parser.add_argument("--port", type=int, help="default: the first free one from 7860")
parser.add_argument("--target", help="a bundled name, a folder or a Hub id")
parser.add_argument("--drafter", help="a bundled name, a folder or a Hub id")
parser.add_argument("--server", help="ws://host:port for runs over a link (default: one of ours)")
parser.add_argument("--token", help="what the server wants to be told; default: MOA_TOKEN")
args = parser.parse_args(None if __name__ == "__main__" else [])
engine = Engine(args.target, args.drafter)
token = args.token or os.environ.get("MOA_TOKEN", "")
try:
    demo = build_demo(engine, Address(args.server, token) if args.server else None)
except UserError as error:
    parser.error(str(error))
start.done()

if __name__ == "__main__":
    engine.start()  # in the background: the page is up before the models are
    demo.queue(max_size=16).launch(
        server_name=args.host,
        server_port=args.port,
        theme=theme(),
        css_paths=CSS,
        run_history=False,
        footer_links=["api", "settings"],
    )
