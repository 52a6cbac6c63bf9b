"""The README's moving picture: the real page at its real speed, run, cut and healed.

    python -m tests.browser.picture assets/pictures/live.webp

starts the page with the default target, and needs its file in the cache. Frames come when Chromium
paints, and last as long in the picture as they did. Beside it comes live.png, a still of the end.
"""

import base64
import io
import os
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.browser.driving import DONE, RUN, TEXT, start
from tests.conftest import CHROMIUM, FLAGS, ROOT
from tests.serving import free_port, page_of

SIZE = 1280, 800
WIDTH = 900  # of the picture
PROMPT = "What is the capital of France, and what is it known for?"
EVERY = 0.12  # seconds between frames, at least
LAST = 2.5  # seconds that the end stays


def played(page: Page) -> None:
    """What the picture shows: a run beside plain decoding, then one that is cut and healed."""
    start(page)
    page.wait_for_function(DONE, timeout=120_000)
    page.wait_for_timeout(2000)
    start(page)
    page.wait_for_selector(f"{TEXT} [data-token=accepted] >> nth=6")
    page.get_by_role("button", name="✂ Cut the connection").click()
    page.wait_for_selector(f"{TEXT} [data-token=offline] >> nth=12")
    page.get_by_role("button", name="Restore the connection").click()
    page.wait_for_function(DONE, timeout=120_000)


def filmed(page: Page) -> list[tuple[float, Image.Image]]:
    """Frames with their times, in seconds, while the page is played."""
    frames: list[tuple[float, Image.Image]] = []
    session = page.context.new_cdp_session(page)

    def taken(event: dict[str, Any]) -> None:
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})
        at = event["metadata"]["timestamp"]
        if frames and at - frames[-1][0] < EVERY:
            return
        whole = Image.open(io.BytesIO(base64.b64decode(event["data"]))).convert("RGB")
        size = WIDTH, round(WIDTH * whole.height / whole.width)
        frames.append((at, whole.resize(size, Image.Resampling.LANCZOS)))

    session.on("Page.screencastFrame", taken)
    # Few frames: each is encoded on the processor on which the models run.
    session.send("Page.startScreencast", {"format": "jpeg", "quality": 90, "everyNthFrame": 3})
    played(page)
    page.wait_for_timeout(1000)
    session.send("Page.stopScreencast")
    return frames


def main(out: Path) -> None:
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port)]
    with (
        TemporaryDirectory() as folder,
        page_of(
            command, port, Path(folder) / "log", cwd=ROOT, env=os.environ | {"HF_HUB_OFFLINE": "1"}
        ) as url,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        page.set_default_timeout(60_000)
        page.goto(url)
        page.wait_for_selector(RUN)
        page.fill("#prompt textarea", PROMPT)
        frames = filmed(page)
        still = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        still.quantize(256, dither=Image.Dither.NONE).save(out.with_suffix(".png"), optimize=True)
        chromium.close()
    first, *rest = (image for _, image in frames)
    lasting = [round(1000 * (after - at)) for (at, _), (after, _) in pairwise(frames)]
    first.save(
        out, save_all=True, append_images=rest, duration=[*lasting, round(1000 * LAST)], loop=0,
        quality=30, method=6,
    )  # fmt: skip
    print(f"{len(frames)} frames, {sum(lasting) / 1000:.1f} s, {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
