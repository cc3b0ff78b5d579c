"""The secrets of a new installation: usable as they are, and never the same twice."""

import re
import subprocess
import sys

from cryptography.fernet import Fernet

from controlplane.config.environment import Environment
from controlplane.config.settings import _database
from deploy.new_secrets import new_secrets
from tests.deploy.manifests import DEPLOY


def test_what_is_printed_is_read_as_settings() -> None:
    command = [sys.executable, "-I", str(DEPLOY / "new_secrets.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in printed.splitlines())
    assert found.keys() == new_secrets().keys()
    env = Environment.read(found)
    Fernet(env.secret_key)
    assert re.fullmatch(r"AKIA[A-Z2-7]{16}", env.access_key_id)
    assert _database(env.database_url)["PASSWORD"] == found["POSTGRES_PASSWORD"]
    assert found["VALKEY_PASSWORD"] in env.redis_url


def test_no_value_means_anything_to_a_shell_a_url_or_an_option_parser() -> None:
    for _ in range(50):
        for name, value in new_secrets().items():
            assert re.fullmatch(r"[A-Za-z0-9_:/@.=+-]+", value)
            assert not (name.endswith("PASSWORD") and value.startswith("-"))


def test_no_secret_is_made_twice() -> None:
    first, second = new_secrets(), new_secrets()
    shared = {name for name in first if first[name] == second[name]}
    assert shared == {"POSTGRES_USER", "POSTGRES_DB"}
