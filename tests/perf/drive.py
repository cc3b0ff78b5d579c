"""The benchmarks' side of the load client, and what a round cost each process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.perf.pump import packed
from tests.perf.site import REGION, REPOSITORY, Site

_TICKS = os.sysconf("SC_CLK_TCK")

ROLES = {
    "gateway": b"controlplane.gateway",
    "worker": b"workers.app",
    "scheduler": b"scheduler",
    "model": b"noop_server",
    "celery": b"tests.perf.noop_tasks",
    "postgres": b"postgres",
    "valkey": b"valkey-server",
    "store": b"nanio",
    "api": b"controlplane.config.wsgi",
}


@dataclass(frozen=True)
class Round:
    """What one round came to; `cpu` is seconds of processor time by role, the client among them."""

    done: int
    seconds: float
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    def __str__(self) -> str:
        each = self.done or 1
        costs = ", ".join(f"{role} {1e6 * spent / each:,.0f}" for role, spent in self.cpu.items() if spent >= 0.02)
        return f"{self.rate:8,.0f}/s   CPU, \N{MICRO SIGN}s each: {costs}"


BUSY_SHARE = 0.6


def limit_of(found: Round) -> str:
    """Whose processor time sets the pace of a round: the busiest process, and how busy all were together."""
    busy = sorted(((spent / found.seconds, role) for role, spent in found.cpu.items()), reverse=True)
    together = sum(share for share, _ in busy) / (os.cpu_count() or 1)
    shares = ", ".join(f"{role} {share:.0%} of a processor" for share, role in busy[:3])
    said = f"the pace is set by {busy[0][1]}"
    if busy[0][0] < BUSY_SHARE and together < BUSY_SHARE:
        said = "none of them is busy: they wait, for each other, the disk or a processor that does other work"
    return f"{said}: {shares}; all together {together:.0%} of this machine"


class Pump:
    """A running load client."""

    def __init__(self, site: Site, spec: dict[str, Any]) -> None:
        self._site = site
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.perf.pump"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._tell(spec)

    def round(self, connections: int, seconds: float) -> Round:
        """Let it run for a while."""
        before = cpu_seconds(self._site.data_dir)
        told = json.loads(self._tell_line(f"{connections} {seconds}"))
        after = cpu_seconds(self._site.data_dir)
        spent = {role: after[role] - before.get(role, 0.0) for role in after}
        return Round(told["done"], told["seconds"], {"client": told["cpu"], **spent})

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=10)

    def _tell(self, spec: dict[str, Any]) -> None:
        if self._tell_line(json.dumps(spec)) != "ready":
            raise RuntimeError("the load client did not start")

    def _tell_line(self, line: str) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("the load client has no pipes")
        stdin.write(line + "\n")
        stdin.flush()
        answer = stdout.readline().strip()
        if not answer:
            raise RuntimeError("the load client failed")
        return answer


def accept_pump(site: Site, endpoint: str, bodies: list[bytes]) -> Pump:
    """A client that sends these bodies to an asynchronous endpoint, each signed by itself; good for 5 minutes."""
    path, signer = f"/endpoints/{endpoint}/async-invocations", signer_of(site)
    file = site.data_dir / f"messages-{endpoint}"
    file.write_bytes(packed([signed_request(signer, site.url, path, body) for body in bodies]))
    return Pump(site, {"kind": "http", "port": site.port, "messages": str(file)})


def raw_pump(site: Site, statement: str, body: str) -> Pump:
    """A client that runs this statement with a fresh uuid and the body."""
    return Pump(site, {"kind": "postgres", "url": site.database_url, "statement": statement, "body": body})


def signer_of(site: Site) -> SigV4Auth:
    """Signs for the bootstrap key."""
    return SigV4Auth(Credentials(site.access_key_id, site.secret_access_key), "sagemaker", REGION)


def signed_request(signer: SigV4Auth, url: str, path: str, body: bytes) -> bytes:
    """A request as boto3 sends it: its headers, signed by botocore."""
    headers = {
        "Host": url.partition("://")[2],
        "X-Amzn-SageMaker-Content-Type": "application/json",
        "User-Agent": "Boto3/1.44.8 md/Botocore#1.44.8 ua/2.1 os/linux lang/python#3.11 cfg/retry-mode#standard",
        "amz-sdk-invocation-id": "2f4f7a5e-6a0c-4f0e-9b0e-9a3d1f1c2b3a",
        "amz-sdk-request": "attempt=1",
        "Content-Length": str(len(body)),
    }
    request = AWSRequest("POST", url + path, data=body, headers=headers)
    signer.add_auth(request)
    lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def cpu_seconds(data_dir: Path) -> dict[str, float]:
    """Processor time so far of each role's processes in this data directory, ended children included."""
    spent = dict.fromkeys(ROLES, 0.0)
    found = {pid: role for pid in _pids() if (role := _role(pid, data_dir))}
    for pid in _pids():
        fields = _stat(pid)
        # PostgreSQL's backends hide their environment behind their title; their parent tells whose they are.
        role = found.get(pid) or found.get(int(fields[1]) if fields else 0)
        if role and fields:
            spent[role] += sum(int(ticks) for ticks in fields[11:15]) / _TICKS
    return spent


def _pids() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _role(pid: int, data_dir: Path) -> str:
    """Which of Headrace's processes over this data directory it is, if any."""
    try:
        command, environment = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
    except OSError:
        return ""
    if f"HEADRACE_SUPERVISED={data_dir}".encode() not in environment:
        return ""
    return next((role for role, pattern in ROLES.items() if pattern in command), "")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: [1] the parent, [11:15] the ticks of itself and of ended children."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
