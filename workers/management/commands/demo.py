"""`manage.py demo`: start everything in a data directory of its own, tell the story, stop everything."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.core import clock
from controlplane.embedded.kept import read_secrets
from controlplane.embedded.processes import answers_ready
from deploy.demo.story import FALLBACK, PREFERRED, Story, StoryFailed

START_SECONDS = 90.0


class Command(BaseCommand):
    """Runs the demonstration; exit code 0 when every value in it was right."""

    help = "Watch an endpoint fall back to its next instance type, serve, and scale in."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        data_dir = Path(os.environ.get("HEADRACE_DATA_DIR") or ".headrace").absolute() / "demo"
        port = os.environ.get("HEADRACE_PORT") or str(_free_port())
        env = {
            **os.environ,
            "HEADRACE_DATA_DIR": str(data_dir),
            "HEADRACE_PORT": port,
            "HEADRACE_LOCAL_CAPACITY": json.dumps({PREFERRED: 0, FALLBACK: 2}),
        }
        self._say(f"Starting Headrace for the demonstration (its data: {data_dir}).")
        supervisor = subprocess.Popen([sys.executable, "manage.py", "up"], env=env, stdout=subprocess.DEVNULL)
        try:
            self._wait_until_ready(supervisor, int(port))
            self._tell(data_dir, env)
        finally:
            supervisor.terminate()
            supervisor.wait()

    def _wait_until_ready(self, supervisor: "subprocess.Popen[bytes]", port: int) -> None:
        pause, started = threading.Event(), clock.monotonic()
        while not answers_ready(port):
            if supervisor.poll() is not None:
                raise CommandError("Headrace did not start; its reason stands above.")
            if clock.monotonic() - started > START_SECONDS:
                raise CommandError(f"Headrace was not ready within {START_SECONDS:.0f} s; see the logs.")
            pause.wait(0.1)
        self._say(f"Up after {clock.monotonic() - started:.1f} s. Now an unmodified boto3 client speaks to it.\n")

    def _tell(self, data_dir: Path, env: dict[str, str]) -> None:
        kept, _ = read_secrets(data_dir)
        keys = {
            "aws_access_key_id": env.get("HEADRACE_ACCESS_KEY_ID") or kept["access_key_id"],
            "aws_secret_access_key": env.get("HEADRACE_SECRET_ACCESS_KEY") or kept["secret_access_key"],
        }

        def manage(*arguments: str) -> str:
            command = [sys.executable, "manage.py", *arguments]
            return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

        def set_capacity(instance_type: str, slots: int) -> None:
            manage("capacity", instance_type, str(slots))

        story = Story(f"http://127.0.0.1:{env['HEADRACE_PORT']}", keys, self._say, set_capacity)
        try:
            story.tell()
        except StoryFailed as error:
            raise CommandError(f"The demonstration failed: {error}\n{manage('explain', 'demo')}") from error
        self._say("\nWhy all of this happened, as `manage.py explain demo` tells it:\n")
        self._say(manage("explain", "demo"))

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
