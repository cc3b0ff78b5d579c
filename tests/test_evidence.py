"""Reports of failed tests: what the Headraces that ran had to say is in them."""

from pathlib import Path

import pytest

from tests import evidence
from tests.evidence import LINES, sections, tail
from tests.system.stack import Stack

pytest_plugins = ["pytester"]

FAILS = """
from pathlib import Path
from tests import evidence
from tests.system.stack import Stack

def test_runs_on():
    pass

def test_fails():
    evidence.began(Stack(Path({folder!r})))
    assert False

def test_fails_after_its_headrace_was_stopped():
    stack = evidence._running[0]
    evidence.ends(stack)
    (stack.data_dir / "logs" / "worker.log").unlink()
    assert False

def test_fails_without_one():
    assert False
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a Headrace that has said something in its logs; of those that run for other tests nothing is known."""
    monkeypatch.setattr(evidence, "_running", [])
    monkeypatch.setattr(evidence, "_stopped", [])
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker.log").write_text("".join(f"line {number}\n" for number in range(1000)))
    (tmp_path / "up.log").write_text("starting the engines\n")
    return tmp_path


def test_of_a_log_its_end_is_told(folder: Path) -> None:
    told = tail(folder / "logs" / "worker.log").splitlines()
    assert (len(told), told[0], told[-1]) == (LINES, f"line {1000 - LINES}", "line 999")


def test_secrets_are_not_told(folder: Path) -> None:
    log = folder / "up.log"
    log.write_text("  export AWS_SECRET_ACCESS_KEY=abc/123\n  console  http://host/  (user admin, password s3cret)\n")
    assert tail(log) == "  export AWS_SECRET_ACCESS_KEY=***\n  console  http://host/  (user admin, password ***)"


def test_each_log_is_told_and_a_queue_that_cannot_be_asked_too(folder: Path) -> None:
    told = dict(sections(Stack(folder)))
    assert [title.rpartition(" ")[2] for title in told] == ["queue", "worker.log", "up.log"]
    assert next(iter(told.values())).startswith("cannot be asked: ")


def test_a_report_of_a_failed_test_has_it_and_no_other(pytester: pytest.Pytester, folder: Path) -> None:
    pytester.makepyfile(FAILS.format(folder=str(folder)))
    result = pytester.runpytest_inprocess("-p", "tests.evidence", "-p", "no:cacheprovider", "-p", "no:django")
    result.assert_outcomes(passed=1, failed=3)
    said = "\n".join(result.outlines)
    first, second, third = said.partition("= FAILURES =")[2].split("\n___")[1:4]
    assert "line 999" in first
    assert "starting the engines" in second
    assert "line 999" in second
    assert "line 999" not in third
