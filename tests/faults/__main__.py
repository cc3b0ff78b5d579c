"""`python -m tests.faults --seed 1 --faults 1000`: a storm on a database of its own; exit code 1 when anything is wrong."""

import argparse
import logging
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import django
from cryptography.fernet import Fernet
from django.core.management import call_command

from controlplane.embedded import engines

ACCOUNT = "123456789012"


def main() -> int:
    """Start PostgreSQL, storm, count."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="draws the same storm again")
    parser.add_argument("--faults", type=int, default=1000, help="how many faults before it calms down")
    options = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-faults-"))
    data_dir.chmod(0o755)
    try:
        with engines.running(data_dir, {}) as started:
            _set_up(data_dir, started)
            return _storm(options.seed, options.faults)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


def _set_up(data_dir: Path, started: engines.Engines) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="controlplane.config.settings",
        HEADRACE_DATA_DIR=str(data_dir),
        HEADRACE_DATABASE_URL=started.database_url,
        HEADRACE_REDIS_URL=started.redis_url,
        HEADRACE_S3_ENDPOINT_URL=started.s3_endpoint_url,
        HEADRACE_SECRET_KEY=Fernet.generate_key().decode(),
        HEADRACE_ACCOUNT_ID=ACCOUNT,
        HEADRACE_PROVIDER="simulated",
    )
    django.setup()
    call_command("migrate", verbosity=0)
    logging.disable(logging.CRITICAL)


def _storm(seed: int, faults: int) -> int:
    # The rest needs Django's settings, which exist only now.
    from controlplane.core import clock  # noqa: PLC0415
    from tests.fakes.clock import FakeClock  # noqa: PLC0415
    from tests.faults.storm import Storm, make_account  # noqa: PLC0415

    fake = FakeClock()
    clock.use(fake)
    make_account(fake.now())
    print(f"A storm of {faults} faults, seed {seed}...", flush=True)
    outcome = Storm(seed, fake).run(faults)
    print(outcome)
    for line in (*outcome.leaked, *outcome.doubled, *outcome.stuck):
        print(f"  {line}")
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
