"""What a person does in the console, and what no page of it may do."""

from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

from controlplane.embedded.kept import read_secrets
from tests.browser.chromium import SIZES, THEMES, context_of, picture
from tests.browser.contrast import faint_texts
from tests.system.stack import Stack

_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Complaints:
    """What a browser held against the pages that it showed."""

    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Console:
    """A browser window with an operator in front of it. Leaving the context closes it and checks its complaints."""

    def __init__(self, browser: Browser, stack: Stack, size: str = "desktop", theme: str = "light") -> None:
        self._stack = stack
        self.size, self.theme = size, theme
        self.context: BrowserContext = context_of(browser, size, theme)
        self.page: Page = self.context.new_page()
        self.complaints = Complaints()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.errors.append(str(error)))
        self.page.on("request", self._see)
        self.page.on("response", self._read)

    def __enter__(self) -> "Console":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.context.close()
        if error is None:
            self.check()

    def check(self) -> None:
        """No script failed, nothing was asked of another host, nothing answered 5xx, and no file was missing."""
        assert not self.complaints.errors, self.complaints.errors
        assert not self.complaints.strangers, self.complaints.strangers
        assert not self.complaints.faults, self.complaints.faults

    def log_in(self, user: str = "admin", password: str | None = None) -> None:
        """Log in; by default as the installation's administrator."""
        self.page.goto(f"{self._stack.url}/admin/")
        self.page.fill("input[name=username]", user)
        self.page.fill("input[name=password]", password or read_secrets(self._stack.data_dir)[0]["admin_password"])
        self.page.click("button[type=submit]")
        self.page.wait_for_selector("#nav-sidebar", state="attached")

    def visit(self, path: str) -> Page:
        """Show a page of the console: `visit("capacity/")`."""
        self.page.goto(f"{self._stack.url}/admin/{path}")
        return self.page

    def picture(self, name: str) -> None:
        """Keep a picture of what is shown; nothing of it may stick out to the right."""
        self.page.wait_for_load_state("networkidle")
        picture(self.page, f"{name}-{self.size}-{self.theme}")
        assert self.page.evaluate(_OVERFLOW) <= 0, f"{name} is wider than the window"

    def _hear(self, message: ConsoleMessage) -> None:
        # What came back is judged by `_read`: a page that is not there may be asked for.
        if message.type == "error" and "the server responded with a status of 4" not in message.text:
            self.complaints.errors.append(message.text)

    def _see(self, request: Request) -> None:
        host = urlsplit(request.url).netloc
        if host and host != urlsplit(self._stack.url).netloc:
            self.complaints.strangers.append(request.url)

    def _read(self, response: Response) -> None:
        if response.status >= 500 or (response.status >= 400 and "/static/" in response.url):
            self.complaints.faults.append(f"{response.status} {response.url}")


def every_look(browser: Browser, stack: Stack, paths: dict[str, str]) -> None:
    """A picture of each page (name -> path) at each size in each theme, as the administrator sees it; all of it legible."""
    for size in SIZES:
        for theme in THEMES:
            with Console(browser, stack, size, theme) as console:
                console.log_in()
                for name, path in paths.items():
                    console.visit(path)
                    console.picture(name)
                    faint = faint_texts(console.page)
                    assert not faint, f"{name}, {size}, {theme}: {faint}"
