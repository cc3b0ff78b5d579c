"""What takes part in the comparison of routed calls: the container itself, the gateway, and the rivals that run here."""

import http.client
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from controlplane.auth import bearer
from controlplane.auth.sigv4 import Key
from controlplane.core import clock
from tests.controlplane.routing.peers import free_port
from tests.perf.rival_install import NotInstalled
from tests.perf.rivals import CHAT, RIVALS, Place, Rival
from tests.perf.site import ACCOUNT, REGION, Site, wait_for

HEADRACE = "Headrace"
SHARED = "Headrace, a process per CPU"
ENDPOINT = "bench-routed"
START_SECONDS = 90.0
MESSAGES = 400
_TICKS = os.sysconf("SC_CLK_TCK")

Asking = Callable[[bool, bytes], tuple[str, dict[str, str]]]
"""For a stream or not, and a body: the path, and the headers beside Host and Content-Length."""


@dataclass(frozen=True)
class Peer:
    """Something that answers the calls; `pids` are its processes, none where its processor time is not looked at."""

    name: str
    port: int
    asking: Asking
    pids: tuple[int, ...] = ()
    most_connections: int = 64

    def messages(self, *, is_stream: bool) -> list[bytes]:
        """Whole requests, no two alike, signed now where they are signed at all."""
        return [self._message(is_stream, _body(number, is_stream=is_stream)) for number in range(MESSAGES)]

    def _message(self, is_stream: bool, body: bytes) -> bytes:
        path, headers = self.asking(is_stream, body)
        head = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json", **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**head, "Content-Length": str(len(body))}.items())
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def _body(number: int, *, is_stream: bool) -> bytes:
    text = f"Question {number}: what carries water to a mill? " + "All in good time. " * 15
    return json.dumps({"model": "bench", "stream": is_stream, "messages": [{"role": "user", "content": text}]}).encode()


def direct(port: int) -> Peer:
    """The container, asked without anybody between."""
    return Peer("direct", port, lambda is_stream, body: ("/invocations", {}))


def headrace(site: Site, port: int, pids: tuple[int, ...]) -> list[Peer]:
    """Two doors of gateways: InvokeEndpoint with a signature of each call's own, and the OpenAI path with a token."""
    signer = SigV4Auth(Credentials(site.access_key_id, site.secret_access_key), "sagemaker", REGION)
    key = Key(site.access_key_id, site.secret_access_key, ACCOUNT)
    token = bearer.issue(key, region=REGION, service="sagemaker", now=clock.now())

    def native(is_stream: bool, body: bytes) -> tuple[str, dict[str, str]]:
        path = f"/endpoints/{ENDPOINT}/invocations{'-response-stream' if is_stream else ''}"
        host = f"127.0.0.1:{port}"
        request = AWSRequest("POST", f"http://{host}{path}", data=body, headers={"Host": host})
        signer.add_auth(request)
        return path, dict(request.headers)

    def openai(is_stream: bool, body: bytes) -> tuple[str, dict[str, str]]:
        return f"/endpoints/{ENDPOINT}/openai{CHAT}", {"Authorization": f"Bearer {token}"}

    return [Peer(HEADRACE, port, native, pids), Peer(f"{HEADRACE}, OpenAI path", port, openai, pids)]


def headrace_shared(site: Site) -> Peer:
    """InvokeEndpoint by as many gateways on one port as the machine has processors, as the routers have threads."""
    count = os.cpu_count() or 1
    peer, _ = headrace(site, *site.start_gateways(count))
    return replace(peer, name=SHARED)


def rivals(site: Site, upstream_port: int) -> list[Peer]:
    """Those that can be had and answer; the others are named with the reason."""
    found = []
    for rival in RIVALS:
        try:
            found.append(_start(rival, site, upstream_port))
        except (NotInstalled, TimeoutError, OSError) as error:
            print(f"  {rival.name} is left out: {error}", flush=True)
    return found


def _start(rival: Rival, site: Site, upstream_port: int) -> Peer:
    program = rival.install()
    folder = site.data_dir / rival.name
    folder.mkdir()
    place = Place(folder, free_port(), free_port(), upstream_port)
    env = {**os.environ, **program.env, **rival.env, "HOME": str(folder)}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [str(program.path), *rival.arguments(place)], cwd=folder, env=env, stdout=log, stderr=log
        )
    site.stack.callback(_end, process)
    headers = rival.headers
    peer = Peer(rival.name, place.port, lambda is_stream, body: (CHAT, headers), (process.pid,), rival.most_connections)

    def answers() -> bool:
        if process.poll() is not None:
            raise NotInstalled(f"it ended with code {process.returncode}: {_last_line(folder / 'log')}")
        return _answers(place.port, rival.headers)

    try:
        wait_for(answers, START_SECONDS)
    except TimeoutError as error:
        raise TimeoutError(f"no good answer within {START_SECONDS:g} s: {_last_line(folder / 'log')}") from error
    return peer


def _answers(port: int, headers: dict[str, str]) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", CHAT, _body(0, is_stream=False), {"Content-Type": "application/json", **headers})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1][-200:] if lines else "it said nothing"


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def cpu_seconds(pids: tuple[int, ...]) -> float:
    """Processor time so far of processes and all that they have started."""
    if not pids:
        return 0.0
    stats = {int(folder.name): _stat(folder) for folder in Path("/proc").glob("[0-9]*")}
    family, added = set(pids), True
    while added:
        children = {child for child, fields in stats.items() if fields and int(fields[1]) in family} - family
        family, added = family | children, bool(children)
    return sum(sum(int(ticks) for ticks in stats[each][11:13]) for each in family if stats.get(each)) / _TICKS


def _stat(folder: Path) -> list[str]:
    """The fields of /proc/PID/stat after the name: [1] the parent, [11:13] the ticks."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
