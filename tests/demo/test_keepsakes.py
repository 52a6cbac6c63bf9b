"""Files for visitors do not pile up."""

from demo import keepsakes
from demo.keepsakes import keepsake


def test_only_the_newest_files_are_kept(monkeypatch):
    monkeypatch.setattr(keepsakes, "MOST", 3)
    made = [keepsake("a.json") for _ in range(5)]
    for path in made[2:]:
        path.write_text("{}")
    last = keepsake("b.csv")
    last.write_text("{}")
    assert [path.exists() for path in made] == [False, False, False, True, True]
    assert last.exists() and len({path.parent for path in made}) == 5
    assert len(list(last.parent.parent.iterdir())) == 3
