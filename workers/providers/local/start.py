"""Starting an instance: its directory, what is to run in it, and the shim that runs it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controlplane.core import clock
from workers.providers.base import CALL_TIMEOUT_SECONDS, LaunchRequest
from workers.providers.local import locks
from workers.providers.local.processes import Directory

_SHIM = str(Path(__file__).with_name("shim.py"))
_FETCH = str(Path(__file__).with_name("model_data.py"))
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")


def write_spec(
    directory: Directory, request: LaunchRequest, command: Sequence[str], env: Mapping[str, str], grace_seconds: float
) -> None:
    """Write down what is to run before anything runs; whatever an earlier attempt left there is dropped.

    Only the owner of the process can read it, since a model's Environment may hold secrets. Raises OSError.
    """
    if directory.path.exists():
        shutil.rmtree(directory.path)
    model_dir = directory.path / "model"
    model_dir.mkdir(mode=0o700, parents=True)
    directory.path.chmod(0o700)
    url = request.model_data_url
    spec: dict[str, Any] = {
        "token": request.token,
        "owner": request.owner,
        "instance_type": request.instance_type,
        "zone": request.zone,
        "launched_at": clock.now().isoformat(),
        "command": [part.replace("{model_dir}", str(model_dir)) for part in command],
        "environment": {**container_environment(env, directory.path), **request.environment},
        "grace_seconds": grace_seconds,
        "fetch_command": [sys.executable, "-P", _FETCH, url, str(model_dir)] if url else [],
        "fetch_timeout_seconds": request.model_data_download_timeout_seconds,
    }
    temporary = directory.path / "spec.tmp"
    temporary.write_text(json.dumps(spec))
    temporary.replace(directory.path / "spec.json")


def start_shim(directory: Directory, environment: Mapping[str, str]) -> None:
    """Start the shim with its lock already taken, so that there is no moment in which it lives and looks dead.

    It detaches: what is waited for here is its first half, and no zombie stays with this process. Raises OSError
    and subprocess.SubprocessError; whether it lives is told by the lock alone.
    """
    with locks.held(directory.lock, CALL_TIMEOUT_SECONDS) as lock, open(directory.path / "shim.log", "ab") as complaints:
        subprocess.run(
            [sys.executable, "-I", "-S", _SHIM, str(directory.path)],
            env=environment,
            pass_fds=[lock],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            check=True,
            timeout=CALL_TIMEOUT_SECONDS,
        )


def container_environment(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """What a container is given besides its model's Environment: nothing that is Headrace's."""
    return {**{name: env[name] for name in _PASSED_ON if name in env}, "HOME": str(home)}


def shim_environment(env: Mapping[str, str], *, is_fetching: bool) -> dict[str, str]:
    """What the shim is given: the object store's address and keys if it has to fetch from there, else next to nothing."""
    passed_on = {name: env[name] for name in _PASSED_ON if name in env}
    if is_fetching:
        wanted = ("AWS_", "HEADRACE_S3_")
        exact = ("HOME", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy")
        passed_on |= {name: value for name, value in env.items() if name.startswith(wanted) or name in exact}
    return passed_on
