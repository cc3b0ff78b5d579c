"""The machine's Chromium, driven by playwright, and the pictures it takes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
PATIENCE_MS = 30_000
"""How long a page may take on a machine that does other things as well."""


class NoChromium(Exception):
    """There is no browser to test with."""


def executable() -> str:
    """Where Chromium is; raises NoChromium saying what to install."""
    named = os.environ.get("CHROMIUM")
    if named and Path(named).exists():
        return named
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise NoChromium(
        "The browser tests need Chromium: install it (Debian and Ubuntu: apt-get install chromium) or name it in CHROMIUM."
    )


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser with a fresh profile, which ends with the context."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def context_of(browser: Browser, size: str = "desktop", theme: str = "light") -> BrowserContext:
    """A window of this size in this theme, without anybody's cookies; times are UTC."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        timezone_id="UTC",
        is_mobile=size == "phone",
        has_touch=size == "phone",
    )
    context.set_default_timeout(PATIENCE_MS)
    return context


def pictures() -> Path:
    """Where pictures are kept: $HEADRACE_TEST_OUTPUT, else .headrace/screenshots."""
    folder = Path(os.environ.get("HEADRACE_TEST_OUTPUT") or Path(__file__).parents[2] / ".headrace" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def picture(page: Page, name: str) -> Path:
    """Take a picture of the whole page."""
    path = pictures() / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    return path
