"""The variables for clients: as a shell reads them, and only of a set-up that was started."""

import json
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


def printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(folder))
    out = StringIO()
    call_command("client_env", stdout=out)
    return out.getvalue()


def test_a_shell_reads_address_region_and_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"HEADRACE_PORT": "8123", "HEADRACE_ACCESS_KEY_ID": "AKIAX", "HEADRACE_SECRET_ACCESS_KEY": "it's $HOME"}
    (tmp_path / "environment.json").write_text(json.dumps(env))
    lines = printed(tmp_path, monkeypatch)
    keys = "$AWS_ACCESS_KEY_ID|$AWS_SECRET_ACCESS_KEY|${AWS_SESSION_TOKEN-none}"
    show = f'echo "$AWS_ENDPOINT_URL|$AWS_DEFAULT_REGION|{keys}"'
    script = f"export AWS_SESSION_TOKEN=of-another-account\n{lines}{show}"
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown == "http://127.0.0.1:8123|us-east-1|AKIAX|it's $HOME|none\n"


def test_before_the_first_start_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="make up"):
        printed(tmp_path, monkeypatch)
