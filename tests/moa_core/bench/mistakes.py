"""What a mistake on the command line must come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from moa_core.__main__ import main


def check_told(words: Sequence[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`bench` with these words: exit code 2, one sentence, and no file. {out}, {folder}: there."""
    out = folder / "out.json"
    given = [part.format(out=out, folder=folder) for part in words]
    assert main(["bench", "--device", "cpu", *given]) == 2
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert captured.out == "" and len(lines) == 1 and lines[0].startswith("error: ")
    assert not out.exists()
