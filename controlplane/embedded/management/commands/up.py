"""`manage.py up`: start everything on this machine and keep it running until Ctrl-C."""

import os
import signal
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.embedded.child import StartFailed
from controlplane.embedded.supervisor import AlreadyRunning, Supervisor

BANNER = """
Headrace is up.

  export AWS_ENDPOINT_URL=http://127.0.0.1:{port}
  export AWS_DEFAULT_REGION={region}
{keys}
  Operators' console   http://127.0.0.1:{port}/admin/  (user admin, password {admin})
  The story of an endpoint   python manage.py explain ENDPOINT
  Logs   {logs}

Ctrl-C stops everything; the data stay in {data_dir}.
"""


class Command(BaseCommand):
    """Runs the supervisor in the foreground."""

    help = "Start PostgreSQL, Valkey, the store and all of Headrace's processes; Ctrl-C stops them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--quiet", action="store_true", help="print errors only")

    def handle(self, *args: Any, quiet: bool, **options: Any) -> None:
        data_dir = Path(os.environ.get("HEADRACE_DATA_DIR") or ".headrace").absolute()
        say = (lambda line: None) if quiet else self._say
        supervisor = Supervisor(data_dir, dict(os.environ), say)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: supervisor.stop())
        try:
            supervisor.run(lambda env, keys_are_new: not quiet and self._print_banner(env, data_dir, keys_are_new))
        except (AlreadyRunning, StartFailed) as error:
            raise CommandError(str(error)) from error

    def _say(self, line: str) -> None:
        self.stdout.write(f"[headrace] {line}")
        self.stdout.flush()

    def _print_banner(self, env: Mapping[str, str], data_dir: Path, keys_are_new: bool) -> bool:
        """True: the keys are shown at most once, and this was the time to."""
        secrets_file = data_dir / "secrets.json"
        keys = f"  (the key pair stands in {secrets_file})\n"
        if keys_are_new:
            keys = (
                f"  export AWS_ACCESS_KEY_ID={env['HEADRACE_ACCESS_KEY_ID']}\n"
                f"  export AWS_SECRET_ACCESS_KEY={env['HEADRACE_SECRET_ACCESS_KEY']}\n"
            )
        admin = env["HEADRACE_ADMIN_PASSWORD"] if keys_are_new else f"in {secrets_file}"
        self.stdout.write(
            BANNER.format(
                port=env["HEADRACE_PORT"],
                region=env.get("HEADRACE_REGION") or "us-east-1",
                keys=keys,
                admin=admin,
                logs=data_dir / "logs",
                data_dir=data_dir,
            )
        )
        self.stdout.flush()
        return True
