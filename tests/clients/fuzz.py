"""`python -m tests.clients.fuzz [--seconds N] [--seed N]`: a Headrace of its own, fuzzed by what its document says.

Schemathesis reads the document and sends what it allows and what it forbids, to every operation. No answer may be a fault
of the server, of a status that is not declared, or other than its schema; nothing may be taken that the schema forbids.
`schemathesis.toml` has the exceptions, and why.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.system.raw import ask
from tests.system.stack import Stack

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = 10
"""Requests of each operation in each phase that draws at random; boundary values come on top."""


def administrator_token(stack: Stack) -> str:
    """The secret of a token that may do everything, so that nothing is refused before it is read."""
    made = ask(stack, "POST", "/api/v1/tokens", {"Name": "fuzzer", "Role": "administrator"})
    assert made.status == 201, made.body
    return str(made.document["Secret"])


def fuzz(
    stack: Stack, seed: int, *, seconds: int | None = None, examples: int = EXAMPLES
) -> "subprocess.CompletedProcess[str]":
    """Fuzz a running Headrace; what the fuzzer says is in the result's `stdout`.

    Without `seconds` it goes through its phases once, however long that takes; with them, again and again until then.

    It has one worker: with more, Hypothesis parses Python in several threads at once, which CPython 3.11 ends at times
    with a SystemError (gh-106905).
    """
    folder = Path(tempfile.mkdtemp(prefix="headrace-fuzz-"))
    command = [
        *(Path(sys.executable).with_name("schemathesis"), "--config-file", CONFIG, "--no-color"),
        *("run", f"{stack.url}/api/v1/schema/", "--header", f"Authorization: Bearer {administrator_token(stack)}"),
        *("--seed", seed, "--max-examples", examples, "--workers", 1),
        *(() if seconds is None else ("--max-time", seconds)),
        *("--request-timeout", 60, "--suppress-health-check", "too_slow"),  # the machine's speed is no finding
        *("--continue-on-failure", "--generation-database", "none", "--warnings", "off"),
    ]
    try:
        words = [str(part) for part in command]
        return subprocess.run(words, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(folder)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_"))}


def main() -> int:
    """Start a Headrace, fuzz it, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.fuzz")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--examples", type=int, default=50 * EXAMPLES)
    wanted = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-fuzz-"))
    data_dir.chmod(0o755)
    stack = Stack(data_dir)
    try:
        stack.start()
        found = fuzz(stack, wanted.seed, seconds=wanted.seconds, examples=wanted.examples)
        print(found.stdout)
        return found.returncode
    finally:
        stack.stop()
        shutil.rmtree(data_dir, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
