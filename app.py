"""The page, for `python app.py`, gradio and Spaces, which look for `demo` here."""

import sys

from demo.main import opened
from moa_core.errors import ended

pages = []
if code := ended(lambda: pages.append(opened(sys.argv[1:] if __name__ == "__main__" else []))):
    sys.exit(code)
demo, launch = pages[0]

if __name__ == "__main__":
    launch()
