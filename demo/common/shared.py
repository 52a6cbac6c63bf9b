"""What all tabs of the page share."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from demo.engine import Engine
from demo.network.server import Far


@dataclass(frozen=True)
class Shared:
    """The models, and the components above the tabs.

    visit   a `Visit`, one per visitor; None until the page has loaded
    target  name of the target in use
    far     the target at the other end of a link
    tabs    names of the page's tabs, in their order
    """

    engine: Engine
    visit: gr.State
    target: gr.Dropdown
    far: Far
    tabs: tuple[str, ...]
