"""The machine's Chromium, or one of playwright's own, driven by playwright, and the pictures it takes.

`python -m tests.browser.chromium` fetches playwright's own into the virtual environment where the machine has none.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, PlaywrightContextManager, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
PATIENCE_MS = 30_000
"""How long a page may take, and what is expected of it, on a machine that does other things as well."""


class NoChromium(Exception):
    """There is no browser to test with."""


def of_the_machine() -> str | None:
    """Where the machine's Chromium is, if it has one."""
    named = os.environ.get("CHROMIUM")
    if named and Path(named).exists():
        return named
    for name in NAMES:
        if found := shutil.which(name):
            return found
    return None


def driver() -> PlaywrightContextManager:
    """Playwright, which keeps its own browser inside its package: nothing is installed outside the environment."""
    os.environ.setdefault("PLAYWRIGHT_BROWSERS_PATH", "0")
    return sync_playwright()


def fetch() -> None:
    """Have a browser to test with; says so where none can be had."""
    if of_the_machine() is None:
        print("==> Fetching Chromium for the browser tests into the virtual environment")
        place = {"PLAYWRIGHT_BROWSERS_PATH": "0", **os.environ}
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], env=place, check=False)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser with a fresh profile, which ends with the context; raises NoChromium saying what to install."""
    with driver() as playwright:
        found = of_the_machine() or playwright.chromium.executable_path
        if not Path(found).exists():
            raise NoChromium(
                "The browser tests need Chromium: install it (Debian and Ubuntu: apt-get install chromium) or name it in"
                " CHROMIUM."
            )
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        expect.set_options(timeout=PATIENCE_MS)
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


if __name__ == "__main__":
    fetch()
