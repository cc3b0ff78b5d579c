"""What a data directory keeps from run to run: generated secrets and chosen ports."""

import json
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

ENVIRONMENT_FILE = "environment.json"
"""`config.environment` reads it, too."""

ANNOUNCED = "announced"
"""Entry of the secrets file: "yes" once a human was shown the keys. A start that failed before has shown nothing."""


def read_secrets(data_dir: Path) -> tuple[dict[str, str], bool]:
    """The secrets of this data directory, made at the first call; and whether nobody was shown them yet."""
    path = data_dir / "secrets.json"
    found = _read(path)
    made = {
        "postgres_password": secrets.token_urlsafe(24),
        "valkey_password": secrets.token_urlsafe(24),
        "secret_key": Fernet.generate_key().decode(),
        "admin_password": secrets.token_urlsafe(12),
        "access_key_id": "AKIA" + "".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(16)),
        "secret_access_key": secrets.token_urlsafe(30),
    }
    complete = {**made, **found}
    if complete != found:
        _write(path, complete)
    return complete, complete.get(ANNOUNCED) != "yes"


def mark_announced(data_dir: Path) -> None:
    """Remember that a human was shown the keys, so that they are printed once."""
    path = data_dir / "secrets.json"
    _write(path, {**_read(path), ANNOUNCED: "yes"})


def read_ports(data_dir: Path, names: list[str]) -> dict[str, int]:
    """A port of 127.0.0.1 for each name: the one used last time while it is free, else another, kept for next time."""
    path = data_dir / "ports.json"
    found = _read(path)
    chosen: dict[str, int] = {}
    for name in names:
        port = found.get(name, 0)
        chosen[name] = port if port and is_free(port) else _free_port()
    if chosen != found:
        _write(path, {**found, **chosen})
    return chosen


def write_environment(data_dir: Path, environment: Mapping[str, str]) -> None:
    """How a management command of another shell finds what runs."""
    _write(data_dir / ENVIRONMENT_FILE, {k: v for k, v in environment.items() if k.startswith("HEADRACE_")})


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of 127.0.0.1 now; connections lingering after a close do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    _replace(path, json.dumps(content, indent=1))


def _replace(path: Path, text: str) -> None:
    """Replace the file in one step, readable by its owner alone."""
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
