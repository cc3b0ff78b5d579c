"""nanio, the S3-compatible store of the embedded set-up: files on disk, signatures checked."""

import os
import socket
import sys
from pathlib import Path

from controlplane.embedded.child import Spec

ROOT = Path(__file__).parents[2]
"""Where this package can be imported from."""


def prepare(data_dir: Path, port: int, access_key_id: str, secret_access_key: str, log: Path) -> Spec:
    """What to run; the keys go by the environment."""
    folder = data_dir / "store"
    folder.mkdir(mode=0o700, exist_ok=True)
    return Spec(
        name="store",
        argv=[
            *(sys.executable, "-m", "uvicorn", "--factory", "controlplane.embedded.nanio_files:app"),
            *("--app-dir", str(ROOT), "--host", "127.0.0.1", "--port", str(port)),
            *("--loop", "uvloop", "--http", "httptools", "--ws", "none", "--no-access-log", "--no-server-header"),
        ],
        env={
            "NANIO_DATA_DIR": str(folder),
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "NANIO_ACCESS_KEY": access_key_id,
            "NANIO_SECRET_KEY": secret_access_key,
        },
        log=log,
        is_ready=lambda _: accepts(port),
    )


def url(port: int) -> str:
    """How to reach the store."""
    return f"http://127.0.0.1:{port}"


def accepts(port: int) -> bool:
    """Whether something listens on this port of 127.0.0.1."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False
