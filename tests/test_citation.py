"""The citation file and the bundle's card say what there is."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def front(path: Path) -> dict:
    """The front matter of a Markdown file."""
    opening, matter, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    assert opening == ""
    return yaml.safe_load(matter)


def test_the_citation_names_the_program_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "title", "message", "authors"} <= citation.keys()
    assert citation["title"] == front(ROOT / "README.md")["title"]
    assert citation["license"].lower() == front(ROOT / "README.md")["license"]
    (paper,) = citation["references"]
    names = [f"{one['given-names']} {one['family-names']}" for one in paper["authors"]]
    assert names == [
        "Matthieu Zimmer", "Milan Gritta", "Gerasimos Lampouras", "Haitham Bou Ammar", "Jun Wang",
    ]  # fmt: skip
    assert paper["identifiers"][0]["value"] == "arXiv:2410.03804"


def test_the_bundles_card_is_one_the_hub_reads() -> None:
    card = ROOT / "assets" / "models" / "README.md"
    matter, text = front(card), card.read_text(encoding="utf-8")
    assert matter["license"] == "apache-2.0" and "speculative-decoding" in matter["tags"]
    assert all(name.count("/") == 1 for name in matter["datasets"])
    for folder in card.parent.iterdir():
        if (folder / "config.json").exists() and not folder.name.startswith("moa-n"):
            assert f"`{folder.name}`" in text
    assert "`moa-n0` ... `moa-n3`" in text and (card.parent / "credits").is_dir()
