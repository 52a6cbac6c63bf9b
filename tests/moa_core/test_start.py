"""Help is there at once: what is heavy is imported when a command runs, not before."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HELP = """
import contextlib, io, sys
from moa_core.__main__ import main
printed = {}
for words in (["--help"], *([command, "--help"] for command in sys.argv[1:])):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main(words)
    assert "usage:" in out.getvalue(), words
heavy = {"torch", "transformers", "numpy", "gradio", "pandas", "plotly", "accelerate"}
print(sorted(heavy & set(sys.modules)), out.getvalue())
"""


def test_help_of_every_command_imports_nothing_heavy() -> None:
    files = (ROOT / "moa_core" / "commands").glob("*.py")
    commands = sorted(path.stem for path in files if path.stem != "__init__")
    assert {"bench", "generate", "serve", "train"} <= set(commands)
    done = subprocess.run(
        [sys.executable, "-c", HELP, *commands], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[]"), done.stdout[:200]
