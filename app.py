"""The page, for `python app.py`, gradio and Spaces, which look for `demo` here."""

import sys

from demo.main import opened

demo, launch = opened(sys.argv[1:] if __name__ == "__main__" else [])

if __name__ == "__main__":
    launch()
