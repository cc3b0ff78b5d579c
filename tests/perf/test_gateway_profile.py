"""The profile of a gateway at work."""

import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path

from controlplane.embedded.store import accepts
from tests.controlplane.gateway.site import wait_for
from tests.controlplane.routing.peers import free_port
from tests.perf import gateway_profile

CALLS = 100


def test_it_begins_when_it_is_asked_to_and_tells_what_the_gateway_did_then(tmp_path: Path) -> None:
    file, port = tmp_path / "gateway.prof", free_port()
    command = [sys.executable, "-m", "tests.perf.gateway_profile", str(file)]
    env = {**os.environ, "HEADRACE_PORT": str(port), "HEADRACE_API_URL": "http://127.0.0.1:1"}
    process = subprocess.Popen(command, env=env)
    try:
        wait_for(lambda: accepts(port))
        process.send_signal(signal.SIGUSR2)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for _ in range(CALLS):
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
    assert any(name.startswith("controlplane.gateway") for name, _ in gateway_profile.shares(file))
    assert any(calls >= CALLS for _, calls, _ in gateway_profile.functions(file))
