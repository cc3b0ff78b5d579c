"""The runbooks: every command in them runs on a live installation, and what they name is there."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.urls import reverse

from controlplane.core import clock
from tests.system.raw import send
from tests.system.stack import FIRST, REPOSITORY, SECOND, Stack, create_endpoint, delete_endpoint, in_service

FOLDER = REPOSITORY / "deploy/runbooks"
NAME = "runbook"
SECTIONS = ["## Look first", "## Causes, and what to do", "## Over when"]
NO_SUCH_ORPHAN = ("--kill", "--adopt")
"""There is no orphan to be had here, so these are refused, by a sentence that names it."""

BOOKS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def commands(path: Path) -> list[str]:
    """The lines that a reader is to type."""
    blocks = re.findall(r"```console\n(.*?)```", path.read_text(), re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


CASES = [(path.stem, command) for path in BOOKS for command in commands(path)]


@pytest.fixture(scope="module")
def reader(stack: Stack, bucket: str) -> Iterator[dict[str, str]]:
    """What an operator's shell holds; the endpoint has fallen back to its second type."""
    create_endpoint(stack, NAME, types=(FIRST, SECOND), bucket=bucket)
    in_service(stack, NAME)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_"))}
    now = clock.now()
    yield {
        **clean,
        **stack.credentials,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        **json.loads((stack.data_dir / "environment.json").read_text()),
        "URL": stack.url,
        "ENDPOINT": NAME,
        "ORPHAN": "i-0000",
        "SINCE": (now - timedelta(minutes=5)).isoformat(),
        "UNTIL": now.isoformat(),
    }
    in_service(stack, NAME)
    delete_endpoint(stack, NAME)


@pytest.mark.parametrize(("book", "command"), CASES, ids=lambda value: value[:60])
def test_a_command_runs_as_it_is_written(reader: dict[str, str], book: str, command: str) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=REPOSITORY, env=reader, capture_output=True, text=True, check=False
    )
    if any(option in command for option in NO_SUCH_ORPHAN):
        assert reader["ORPHAN"] in done.stderr
        assert "Traceback" not in done.stderr
    else:
        assert done.returncode == 0, done.stderr + done.stdout
        assert not done.stderr


def test_what_the_alerts_are_made_of_is_not_shown_at_the_front_door_without_a_token(stack: Stack) -> None:
    for path in ("/metrics", "/%6detrics", "//metrics", "/metrics?x=1"):
        answer = send(stack, "GET", path, {"Host": "127.0.0.1"}, b"")
        assert answer.status in (403, 404), path
        assert b"headrace_" not in answer.body


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_runbook_has_every_part_and_its_commands(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {path.stem}\n\n**What it means.**")
    assert [line for line in text.splitlines() if line.startswith("## ")] == SECTIONS
    assert len(commands(path)) >= 2
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (FOLDER / link).exists()


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Endpoints", "admin:endpoints"),
        ("Capacity", "admin:capacity"),
        ("Async requests", "admin:requests"),
        ("Orphans", "admin:orphans"),
        ("Fleet", "admin:index"),
    ],
)
def test_a_page_of_the_console_that_is_named_is_there(title: str, name: str) -> None:
    assert reverse(name).startswith("/admin/")
    assert any(f"**{title}**" in path.read_text() for path in BOOKS)
