"""Waits and bounds of the tests themselves, on a machine that stands still in the midst of them."""

import os
import signal
import subprocess
import sys

import pytest

from tests.contract import waiting
from tests.contract.sites import ROOT
from tests.contract.waiting import LONGEST_STEP_SECONDS, moving, wait


class Machine:
    """Time that passes only as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.looks = 0
        monkeypatch.setattr(waiting, "monotonic", lambda: self.now)

    def stands_still(self, looks_in_vain: int, seconds: float) -> bool:
        """A look for which the machine takes so long; the first few see nothing."""
        self.now += seconds
        self.looks += 1
        return self.looks > looks_in_vain


def test_a_machine_that_stands_still_takes_a_step_from_a_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert wait(lambda: machine.stands_still(2, 10.0), 2.5 * LONGEST_STEP_SECONDS)
    assert machine.now == 30.0


def test_what_happened_in_the_last_moment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    assert wait(lambda: machine.stands_still(3, 1.0), 3 * LONGEST_STEP_SECONDS)


def test_a_wait_in_vain_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    with pytest.raises(AssertionError, match=r"not within 2\.0 s"):
        wait(lambda: machine.stands_still(100, 0.5), 2.0)
    assert machine.looks == 5


STOPPED = """
import sys
from time import monotonic
from tests.contract.waiting import LONGEST_STEP_SECONDS, moving, wait
with moving() as passed:
    began = monotonic()
    print("began", flush=True)
    sys.stdin.readline()
    print(monotonic() - began - passed() > 1.5 * LONGEST_STEP_SECONDS, flush=True)
    wait(lambda: passed() > LONGEST_STEP_SECONDS)
"""


def test_time_in_which_a_process_was_stopped_does_not_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        os.kill(process.pid, signal.SIGSTOP)
        with moving() as passed:
            wait(lambda: passed() > 2.6 * LONGEST_STEP_SECONDS)
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "True\n"
    assert process.returncode == 0
