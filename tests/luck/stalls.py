"""The tests on a machine that stands still again and again: `python -m tests.luck.stalls [--every S] [--stall S] TESTS...`.

All processes of the tests are stopped together, as when a host is overcommitted or a laptop's lid is shut, and go on
together. TESTS are pytest's arguments. Where /proc tells of processes.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

MARK = "HEADRACE_TESTS_STALLED_BY"
"""In the environment of all of them, also of those that have left their parents."""

LOOKS = 3
"""What is started while others are being stopped is found by the next look."""


def main() -> int:
    """Run the tests; returns what pytest does."""
    parser = argparse.ArgumentParser(prog="python -m tests.luck.stalls", description=__doc__)
    parser.add_argument("--every", type=float, default=12.0, help="seconds between two stalls, more or less (12)")
    parser.add_argument("--stall", type=float, default=6.0, help="seconds of each (6)")
    parser.add_argument("--seed", type=int, default=1, help="of the times (1)")
    options, tests = parser.parse_known_args()
    dice, pause, number = random.Random(options.seed), threading.Event(), 0
    with subprocess.Popen([sys.executable, "-m", "pytest", *tests], env={**os.environ, MARK: str(os.getpid())}) as running:
        while not _ends_within(running, dice.uniform(0.6, 1.4) * options.every):
            stopped = _stop(running.pid)
            pause.wait(options.stall)
            _send(stopped, signal.SIGCONT)
            number += 1
            print(f"[stall {number}: {len(stopped)} processes]", flush=True)
        return running.returncode


def _ends_within(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(pid: int) -> set[int]:
    """Stop this process and all that it has started; which they are."""
    stopped: set[int] = set()
    for _ in range(LOOKS):
        found = _family(pid) - stopped
        _send(found, signal.SIGSTOP)
        stopped |= found
    return stopped


def _family(pid: int) -> set[int]:
    """The process, its descendants, and whoever carries the mark with its own."""
    parents: dict[int, int] = {}
    family = {pid}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if f"{MARK}={os.getpid()}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                family.add(int(folder.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    while found := {child for child, parent in parents.items() if parent in family} - family:
        family |= found
    return family


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


if __name__ == "__main__":
    sys.exit(main())
