"""Pages of a browser."""

import pytest

from tests.device.twins import Page


@pytest.fixture(scope="module")
def context(browser):
    found = browser.new_context()
    yield found
    found.close()


@pytest.fixture
def blank(context):
    """Opens a blank page of an app; whatever goes wrong in it fails the test."""
    pages, trouble = [], []

    def opened(served: Page):
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(served.url)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert not trouble
