"""The demo in the browser: run this, then open the address that it prints."""

import argparse

from demo.engine import Engine
from demo.theme import CSS, theme
from demo.ui import build_demo

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--host", help="address to listen on (default: this machine only)")
parser.add_argument("--port", type=int, help="default: the first free one from 7860")
parser.add_argument("--target", help="a bundled name, a folder or a Hub id")
parser.add_argument("--drafter", help="a bundled name, a folder or a Hub id")
args = parser.parse_args(None if __name__ == "__main__" else [])
engine = Engine(args.target, args.drafter)
demo = build_demo(engine)

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
