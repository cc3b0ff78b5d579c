"""The command line as a shell uses it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import manage

ROOT = Path(__file__).parents[1]


def run(*arguments: str, stdout: int) -> "subprocess.CompletedProcess[str]":
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment, timeout=60, check=False
    )


@pytest.mark.parametrize("arguments", [("help",), ("diffsettings",)], ids=" ".join)
def test_a_command_whose_reader_has_gone_ends_without_a_traceback(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(*arguments, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (manage.READER_GONE, "")


def test_a_broken_connection_is_an_error_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose_the_connection(arguments: list[str]) -> None:
        raise BrokenPipeError(f"the database went away under {arguments[1:]}")

    monkeypatch.setattr(manage, "execute_from_command_line", lose_the_connection)
    monkeypatch.setattr(sys, "argv", ["manage.py", "explain"])
    with pytest.raises(BrokenPipeError, match="went away"):
        manage.main()
