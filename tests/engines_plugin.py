"""A pytest plugin: real PostgreSQL, Valkey and store for the whole run, before Django reads its settings.

Named in pyproject's `addopts`, since a conftest would come too late for pytest-django. Of several processes, each that
runs tests has engines of its own; the one that only hands them out has none.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from cryptography.fernet import Fernet

from controlplane.embedded import engines

ACCOUNT = "123456789012"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Start the engines in a directory of their own and tell the settings where they are."""
    for name in [name for name in os.environ if name.startswith(("HEADRACE_", "AWS_"))]:
        del os.environ[name]
    if not _runs_tests(early_config):
        return (yield)
    stack = ExitStack()
    early_config.add_cleanup(stack.close)
    data_dir = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    stack.callback(shutil.rmtree, data_dir, ignore_errors=True)
    started = stack.enter_context(engines.running(data_dir, {}))
    _outlive_no_power_cut(started.database_url)
    os.environ.update(
        HEADRACE_DATA_DIR=str(data_dir),
        HEADRACE_DATABASE_URL=started.database_url,
        HEADRACE_REDIS_URL=started.redis_url,
        HEADRACE_S3_ENDPOINT_URL=started.s3_endpoint_url,
        HEADRACE_SECRET_KEY=Fernet.generate_key().decode(),
        HEADRACE_ACCESS_KEY_ID=started.access_key_id,
        HEADRACE_SECRET_ACCESS_KEY=started.secret_access_key,
        HEADRACE_ACCOUNT_ID=ACCOUNT,
        HEADRACE_PROVIDER="simulated",
        AWS_ACCESS_KEY_ID=started.access_key_id,
        AWS_SECRET_ACCESS_KEY=started.secret_access_key,
        AWS_DEFAULT_REGION="us-east-1",
    )
    return (yield)


def _runs_tests(config: pytest.Config) -> bool:
    """Whether this process runs tests itself, rather than having others run them."""
    return "PYTEST_XDIST_WORKER" in os.environ or not getattr(config.known_args_namespace, "numprocesses", None)


def _outlive_no_power_cut(database_url: str) -> None:
    """Spare the disk: a database that is thrown away after the run need not be on it."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
