"""The mutation check itself: its mutants fit the code, and its verdicts are right."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants import runs
from tests.mutants.mutant import ROOT, Mutant, Stale
from tests.mutants.mutants import MUTANTS
from tests.mutants.runs import Unusable, judged, unmutated

CODE = "def double(x):\n    return 2 * x\n"
TESTS = "from moa_core.sums import double\n\ndef test_of_three():\n    assert double(3) == 6\n"


def test_every_mutant_still_breaks_what_it_says() -> None:
    stale = []
    for mutant in MUTANTS:
        try:
            mutant.broken()
        except (Stale, SyntaxError) as error:
            stale.append(str(error))
    assert not stale, "\n".join(stale)


def test_every_mutant_has_tests() -> None:
    files = {name for mutant in MUTANTS for name in mutant.test_files()}
    assert all(mutant.tests for mutant in MUTANTS)
    assert [name for name in sorted(files) if not (ROOT / name).is_file()] == []


def test_names_are_chosen_once() -> None:
    assert max(Counter(mutant.name for mutant in MUTANTS).values()) == 1


@pytest.mark.parametrize(("old", "error"), [("3 * x", Stale), ("x", Stale), ("(x)", SyntaxError)])
def test_a_mutant_that_fits_no_more_is_an_error(tree: Path, old: str, error: type) -> None:
    with pytest.raises(error):
        of_sums(old, ")").broken(tree)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a package and its test."""
    (tmp_path / "moa_core").mkdir()
    (tmp_path / "moa_core/sums.py").write_text(CODE)
    (tmp_path / "tests/moa_core").mkdir(parents=True)
    (tmp_path / "tests/moa_core/test_sums.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    return tmp_path


def of_sums(old: str, new: str) -> Mutant:
    return Mutant("a sum", "sums.py", old, new, ("test_sums.py",))


@pytest.mark.parametrize(
    ("new", "by"),
    [
        ("3 * x", "test_sums.py::test_of_three"),
        ("x + x", ""),
        ("__import__('os')._exit(3)", "ended with 3"),
    ],
)
def test_a_mutant_is_killed_by_the_tests_that_notice_it(tree: Path, new: str, by: str) -> None:
    verdict = judged(tree, of_sums("2 * x", new))
    assert verdict.killed == bool(by)
    assert not by or verdict.outcome.by == by
    assert (tree / "moa_core/sums.py").read_text() == CODE


def test_what_hangs_is_killed_if_the_tests_do_not_hang_without_it(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "LIMIT", 0.01)
    with pytest.raises(Unusable, match="took too long"):  # as they are, too
        judged(tree, of_sums("2 * x", "3 * x"))
    monkeypatch.setattr(runs, "unmutated", lambda *_: None)
    verdict = judged(tree, of_sums("2 * x", "3 * x"))
    assert verdict.killed and verdict.outcome.by == "took too long"


def test_tests_that_fail_unmutated_say_nothing(tree: Path) -> None:
    (tree / "moa_core/sums.py").write_text(CODE.replace("2", "3"))
    with pytest.raises(Unusable, match=r"test_of_three[^$]*assert 9 == 6"):
        unmutated(tree, ["tests/moa_core/test_sums.py"], 60)


def test_the_command_runs_in_a_copy_and_counts(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, unseen = of_sums("2 * x", "3 * x"), of_sums("(x)", "(x, y=0)")
    assert command.main([], [seen, unseen], tree) == 1  # one of two is not enough
    said = capsys.readouterr().out
    assert "1 of 2 mutants killed: 50.0%." in said and "Survived: a sum" in said
    assert (tree / "moa_core/sums.py").read_text() == CODE


def test_a_word_that_names_no_mutant_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--only", "no such thing"]) == 2
    assert "No mutant is called so" in capsys.readouterr().err
