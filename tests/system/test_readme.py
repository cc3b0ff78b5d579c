"""The README and the pages behind it: every command and every program in them runs, in order, in one reader's shell."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.system.raw import call
from tests.system.stack import FIRST, REPOSITORY, Stack

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "deploy").glob("[dr]*s/*.md"))]
RUNS_FOR_EVER = {"make up"}
ASKED_OTHERWISE = {"make demo", "make test", "make venv"}
"""Too long, or what runs this test itself; that make knows them is seen without running them."""


@dataclass
class Shell:
    """A reader's shell: what one command exports, the next one sees."""

    env: dict[str, str]
    ran: list[str] = field(default_factory=list)

    def run(self, command: str) -> str:
        """What the command prints; the exports it leaves are kept."""
        script = f"{command}\n__status=$?\nenv -0 >&3\nexit $__status"
        reading, writing = os.pipe()
        try:
            done = subprocess.run(
                ["bash", "-uo", "pipefail", "-c", f"exec 3>&{writing}\n{script}"],
                cwd=REPOSITORY,
                env=self.env,
                pass_fds=(writing,),
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            left = pipe.read().decode()
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        self.env = dict(pair.split("=", 1) for pair in left.split("\0") if "=" in pair)
        self.ran.append(command)
        return done.stdout

    def run_program(self, path: Path) -> str:
        """What a Python program prints."""
        return self.run(f"python {path}")


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of every fenced block, in order."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """The lines that a reader is to type, without their comments."""
    assert all(line.startswith("$ ") for line in text.splitlines())
    return [re.sub(r"\s+# .*$", "", line.removeprefix("$ ")) for line in text.splitlines()]


@pytest.fixture
def shell(stack: Stack) -> Iterator[Shell]:
    """A second terminal beside a `make up` with room for both types, as a new one has it."""
    stack.set_capacity(FIRST, 4)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_", "OPENAI_"))}
    path = f"{Path(sys.executable).parent}:{clean['PATH']}"
    yield Shell({**clean, "PATH": path, "HEADRACE_DATA_DIR": str(stack.data_dir), "AWS_PAGER": ""})
    (REPOSITORY / "openapi.json").unlink(missing_ok=True)
    for name in ("hello", "later"):
        call(stack, "DeleteEndpoint", {"EndpointName": name})
        stack.wait(lambda name=name: call(stack, "DescribeEndpoint", {"EndpointName": name}).status == 400, 60)  # type: ignore[misc]
        call(stack, "DeleteEndpointConfig", {"EndpointConfigName": name})
        call(stack, "DeleteModel", {"ModelName": name})
    stack.set_capacity(FIRST, 0)


@pytest.mark.timeout(600)
def test_the_readme_leads_from_nothing_to_an_answer(shell: Shell, tmp_path: Path) -> None:
    for number, (language, text) in enumerate(blocks(REPOSITORY / "README.md")):
        if language == "console":
            for command in commands(text):
                if command not in RUNS_FOR_EVER | ASKED_OTHERWISE:
                    shell.run(command)
        elif language == "python":
            program = tmp_path / f"block{number}.py"
            program.write_text(text)
            assert shell.run_program(program).splitlines() == re.findall(r"^print\(.*\)  # (.*)$", text, re.MULTILINE)
        else:
            assert language == "text"
    told = {word for command in shell.ran for word in ("explain", "api_token", "token", "curl", "aws") if word in command}
    assert told == {"explain", "api_token", "token", "curl", "aws"}
    assert json.loads((REPOSITORY / "openapi.json").read_text())["openapi"].startswith("3.")


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"], ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(shell: Shell, page: Path) -> None:
    for language, text in blocks(page):
        if language == "console":
            for command in commands(text):
                shell.run(command)


@pytest.mark.parametrize("target", sorted(command.removeprefix("make ") for command in RUNS_FOR_EVER | ASKED_OTHERWISE))
def test_make_knows_what_is_named(target: str) -> None:
    subprocess.run(["make", "--dry-run", target], cwd=REPOSITORY, check=True, capture_output=True)


def test_make_knows_every_target_that_a_page_names() -> None:
    known = set(re.findall(r"^([a-z][a-z-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_and_every_file_that_is_named_is_there(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        assert link.startswith("http") or (page.parent / link).exists(), link
    for name in re.findall(r"(?<![\w/.])deploy/[\w./-]+\w", text):
        is_made_by_the_reader = name.endswith(".env")
        assert is_made_by_the_reader or (REPOSITORY / name).exists() or (page.parent / name).exists(), name
