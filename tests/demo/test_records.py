"""Choosing among recordings, and putting a visitor's own beside them."""

import json

import pandas as pd
import pytest

from demo.common.downloads import csv_text
from demo.results import table as record_table
from demo.results.charts import CHARTS, View
from demo.results.records import (
    MOST_OPENED,
    Chosen,
    beside,
    first_choice,
    kinds_of,
    matching,
    methods_of,
    nothing,
    opened,
)
from demo.results.table import claims, paper_section, source, table
from moa_core.errors import UserError
from tests.demo.made_up import figures, recording

ONE = recording("One")
TWO = recording("Two", "bfloat16", "Loom", eagle2=figures(2, 9), moa_n1=figures(3, 8))
BOTH = (ONE, TWO)


def test_to_begin_with_there_is_one_recording_and_every_method():
    chosen = first_choice(BOTH)
    assert chosen.recordings == ["One"] and matching(BOTH, chosen) == [ONE]
    assert chosen.methods == methods_of(BOTH) == ["vanilla", "moa-n1", "eagle2"]
    assert kinds_of(BOTH) == ["a", "b"]
    assert first_choice(()).recordings == []


def test_one_more_stands_beside_and_a_method_left_out_stays_out():
    added = recording("Three", eagle2=figures(2, 9), glide=figures(2, 9, kinds=("c",)))
    chosen = Chosen(["One"], precision="float32", machine=ONE.machine, methods=["moa-n1"])
    shelf, after = beside(BOTH, chosen, added)
    assert shelf == (ONE, TWO, added) and kinds_of(shelf) == ["a", "b", "c"]
    assert after.recordings == ["One", "Three"] and after.methods == ["moa-n1", "glide"]
    assert matching(shelf, after) == [ONE, added]
    # Nothing that was offered is taken away.
    assert methods_of(shelf)[: len(methods_of(BOTH))] == methods_of(BOTH)


def test_machine_and_precision_narrow_down():
    every = ["One", "Two"]
    assert matching(BOTH, Chosen(every, machine=ONE.machine)) == [ONE]
    assert matching(BOTH, Chosen(every, precision="bfloat16")) == [TWO]
    assert matching(BOTH, Chosen(every, machine=ONE.machine, precision="bfloat16")) == []
    assert matching(BOTH, Chosen(["Two"])) == [TWO]


def test_every_empty_choice_has_its_sentence():
    none = [
        nothing((), Chosen([]), []),
        nothing(BOTH, Chosen([]), []),
        nothing(BOTH, Chosen(["One"], precision="x"), []),
        nothing(BOTH, Chosen(["One"], methods=[]), [ONE]),
        nothing(BOTH, Chosen(["One"], methods=["vanilla"]), [ONE]),
    ]
    assert len(set(none)) == len(none) and all(words.endswith(".") for words in none)


def test_an_opened_file_gets_a_name_of_its_own(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(ONE.results), encoding="utf-8")
    shelf = BOTH
    for name in ("Yours: summary", "Yours: summary (2)"):
        added = opened(str(path), shelf)
        assert (added.name, added.opened) == (name, True)
        assert added.methods == ONE.methods
        shelf = (*shelf, added)
    with pytest.raises(UserError, match="open already"):
        opened(str(path), (added,) * MOST_OPENED)


def test_the_table_has_what_the_charts_show():
    rows = table(View((ONE,), ("moa-n1",)))
    assert list(rows["kind"]) == ["all", "a", "b"] and set(rows["method"]) == {"moa-n1"}
    assert list(rows["τ"]) == [3.0, 3.1, 3.2] and list(rows["tokens/s"]) == [20.0, 21.0, 22.0]
    whole = rows.iloc[0]
    assert (whole["draft ms"], whole["verify ms"], whole["other ms"]) == (2, 3, 1)
    assert (whole["accepted ≥ 1"], whole["accepted ≥ 2"]) == (0.5, 0.25)
    assert (whole["machine"], whole["precision"], whole["commit"]) == (
        "CPU, Abacus, 2 threads", "float32", "abc1234",
    )  # fmt: skip
    assert (whole["same text as plain"], whole["joules/token"], whole["updates"]) == (1, 0.25, 325)
    assert rows["updates"].isna().tolist() == [False, True, True]
    assert "repeated 8-grams" not in rows  # nobody has it
    assert list(table(View((ONE,), ("moa-n1",), "b"))["τ"]) == [3.2]
    assert not len(table(View((ONE,), ())))


@pytest.mark.parametrize("odd", ["x", [], {}, True, float("nan"), [None, "a"]])
def test_no_value_of_another_type_breaks_the_table(odd):
    one = recording(odd=dict.fromkeys(figures(2, 9), odd), fine=figures(3, 9))
    rows = table(View((one,), ("odd", "fine")))
    assert rows["τ"].isna().tolist() == [True, False, False, False]


def test_the_csv_reads_back_and_hides_no_formula(tmp_path):
    odd = recording('=1+2,"x"', **{"@m": figures(2, 9)})
    path = tmp_path / "t.csv"
    path.write_text(csv_text(table(View((ONE, odd), ("moa-n1", "@m")))), encoding="utf-8")
    read = pd.read_csv(path)
    assert list(read["τ"][:3]) == [3.0, 3.1, 3.2]
    assert read["recording"].iloc[-1] == '\'=1+2,"x"' and read["method"].iloc[-1] == "'@m"
    assert read["draft ms"].isna().tolist() == [False, True, True] * 2


def test_each_chart_says_what_when_where_and_how():
    view = View((ONE, TWO), ("moa-n1",))
    for name, draw in CHARTS.items():
        words = source(view, name, draw(view))
        for one in (ONE, TWO):
            for part in (one.name, one.date, one.machine, one.precision, one.commit, one.command):
                assert part in words


def test_a_command_that_was_not_recorded_is_called_rebuilt():
    def under_the_chart(one):
        view = View((one,), ("moa-n1",))
        return source(view, "tau", CHARTS["tau"](view))

    assert "<summary>Command, rebuilt from the settings</summary>" in under_the_chart(ONE)
    given = recording()
    given.results["command"] = "python -m moa_core bench --limit 2 --out there"
    words = under_the_chart(given)
    assert "<summary>Command</summary>" in words and "rebuilt" not in words
    assert ">python -m moa_core bench --limit 2 --out there</pre>" in words


def test_words_from_elsewhere_are_escaped():
    hostile = "<script>alert(1)</script>"
    one = recording(hostile, hostile, hostile, **{hostile: figures(2, 9, kinds=(hostile,))})
    one.results.update(command=hostile, commit=hostile, date=hostile)
    view = View((one,), (hostile, "x"))
    words = claims(view) + "".join(source(view, name, draw(view)) for name, draw in CHARTS.items())
    assert "<script" not in words and "&lt;script" in words


def test_the_papers_table_is_apart_and_without_the_flagged_cells(monkeypatch):
    section = paper_section()
    assert section.count(">†<") == 3 and section.count(" ‡</td>") == 3
    assert section.count("1.83 × / 4.19") == 1
    assert "1.98 × / 4.56" in section and "1.82 × / 3.65" in section  # without GSM8K
    assert "Not measured here" in section and "2410.03804" in section
    monkeypatch.setattr(record_table, "published", lambda: None)
    assert paper_section() == ""
