"""What is used before memory is watched: a page's tabs, and a server that has just been started.

Much is loaded or compiled when it is first asked for: drafters, a client's target for each method
of the link, oneDNN's products for each number of rows. That is growth once, and no leak.
"""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.soak.pages import Guest
from tests.soak.places import FAR_METHODS, TABS
from tests.soak.tally import Tally
from tests.soak.visitor import PROMPTS


class Early(Guest):
    """Uses every tab to its end, the link with each method, and then goes."""

    def run(self) -> None:
        self.come()
        try:
            for tab in ("live", "compare", "tli", "how"):
                self.once(tab, tokens=48)
            for method in FAR_METHODS:
                self.once("network", method=method, tokens=48)
        except Exception as error:
            self.wrong(f"the warm-up ended at {self.doing!r}: {error}")
        finally:
            self.go()

    def once(self, tab: str, **settings: object) -> None:
        """One run on a tab, and a look at its newest cycle."""
        where = TABS[tab]
        page = self.arrive(tab, **settings)
        self.does(f"{where.name}: to warm up")
        if tab != "how":
            self.write(page, where, PROMPTS[0])
        self.ended(page, f"{where.name}: to warm up", self.press(page, where.run))
        if tab == "live":
            self.compare_plain(page)
        self.listen(page)
        page.close()


def warm_page(url: str, tally: Tally, seed: int) -> None:
    """Let somebody use all of the page, with nobody else there."""
    early: threading.Thread = Early(-3, url, tally, seed, 1)
    early.start()
    early.join()


def warm_server(address: str, token: str) -> None:
    """Every drafter of the link reads every prompt once."""
    from moa_core.checkpoints import layers_needed, load_drafter
    from moa_core.decode import Settings, decode
    from moa_core.link.connection import Address
    from moa_core.link.fetch import client_target
    from moa_core.link.remote import Remote
    from moa_core.text import prompt_ids

    at = Address(address, token)
    with TemporaryDirectory(prefix="soak-warm-") as folder:
        for method in FAR_METHODS:
            name = method
            target = client_target(at, layers_needed(name, None), Path(folder))
            drafter = load_drafter(name, target)
            settings = Settings(48, drafter.tree, eos_ids=target.eos_ids)
            for prompt in PROMPTS:
                ids = prompt_ids(target.tokenizer, prompt)
                with Remote(at, target, drafter, name == "vanilla") as remote:
                    for _ in decode(target, drafter, ids, settings, remote=remote):
                        pass
