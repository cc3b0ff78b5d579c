"""`eval "$(python manage.py client_env)"`: the variables by which AWS clients find a running `manage.py up`."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.embedded.kept import ENVIRONMENT_FILE


class Command(BaseCommand):
    """Prints export lines for a shell; the key pair is the bootstrap key's."""

    help = "Print, for a shell, how AWS clients reach what `manage.py up` runs: its address, region and key pair."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(os.environ.get("HEADRACE_DATA_DIR") or ".headrace") / ENVIRONMENT_FILE
        try:
            env = json.loads(path.read_text())
        except FileNotFoundError as error:
            raise CommandError(f"There is no {path}: start Headrace by `make up` first.") from error
        client = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{env['HEADRACE_PORT']}",
            "AWS_DEFAULT_REGION": env.get("HEADRACE_REGION") or "us-east-1",
            "AWS_ACCESS_KEY_ID": env["HEADRACE_ACCESS_KEY_ID"],
            "AWS_SECRET_ACCESS_KEY": env["HEADRACE_SECRET_ACCESS_KEY"],
        }
        for name, value in client.items():
            self.stdout.write(f"export {name}={shlex.quote(value)}")
        self.stdout.write("unset AWS_SESSION_TOKEN")  # of other credentials: clients would send it along, and be refused
