"""`python -m tests.perf.planning`: what a planning round costs, on engines of its own; see `tests.perf.rounds`."""

import os
import shutil
import tempfile
from importlib import import_module
from pathlib import Path

import django
from cryptography.fernet import Fernet
from django.core.management import call_command

from controlplane.embedded import engines


def main() -> None:
    """Start the engines, measure, stop."""
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-planning-"))
    data_dir.chmod(0o755)
    try:
        with engines.running(data_dir, {}) as started:
            configure(data_dir, started)
            call_command("migrate", verbosity=0)
            # Models can be imported only now that Django is set up.
            import_module("tests.perf.rounds").run()
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


def configure(data_dir: Path, started: engines.Engines) -> None:
    """Set Django up for these engines, on the simulated provider."""
    os.environ.update(
        DJANGO_SETTINGS_MODULE="controlplane.config.settings",
        HEADRACE_DATA_DIR=str(data_dir),
        HEADRACE_DATABASE_URL=started.database_url,
        HEADRACE_REDIS_URL=started.redis_url,
        HEADRACE_S3_ENDPOINT_URL=started.s3_endpoint_url,
        HEADRACE_SECRET_KEY=Fernet.generate_key().decode(),
        HEADRACE_PROVIDER="simulated",
    )
    django.setup()


if __name__ == "__main__":
    main()
