"""One gateway for the tests of this package; each uses endpoints of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.controlplane.gateway.site import (
    INVOCATION_TIMEOUT_SECONDS,
    PAYLOAD_LIMIT_BYTES,
    REPOSITORY,
    STREAM_TIMEOUT_SECONDS,
    Container,
    Site,
    container,
    mirror,
)
from tests.controlplane.routing.peers import free_port

DATABASE = "gateway_tests"


@pytest.fixture(scope="session")
def gateway_database() -> str:
    """A database of the gateway's own, migrated, with the account and its key; gone with the engines."""
    url = urlsplit(os.environ["HEADRACE_DATABASE_URL"])
    with psycopg.connect(url.geturl(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    own = url._replace(path=f"/{DATABASE}").geturl()
    env = {**os.environ, "HEADRACE_DATABASE_URL": own}
    for command in ("migrate", "bootstrap"):
        subprocess.run([sys.executable, "manage.py", command, "-v", "0"], cwd=REPOSITORY, env=env, check=True)
    return own


@pytest.fixture(scope="session")
def new_site(gateway_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Site]]:
    """Makes gateways, each a process; `changes` go into their environment."""
    with ExitStack() as stack:

        def make(**changes: str) -> Site:
            api, port = stack.enter_context(mirror()), free_port()
            env = {
                **os.environ,
                "HEADRACE_DATABASE_URL": gateway_database,
                "HEADRACE_PORT": str(port),
                "HEADRACE_API_URL": f"http://127.0.0.1:{api}",
                "HEADRACE_S3_EMBEDDED": "1",
                "HEADRACE_PAYLOAD_LIMIT_BYTES": str(PAYLOAD_LIMIT_BYTES),
                "HEADRACE_INVOCATION_TIMEOUT_SECONDS": str(INVOCATION_TIMEOUT_SECONDS),
                "HEADRACE_CAPTURE_SECONDS": "0.3",
                "HEADRACE_DRAIN_SECONDS": "5",
                "HEADRACE_STREAM_TIMEOUT_SECONDS": str(STREAM_TIMEOUT_SECONDS),
                **changes,
            }
            site = Site(gateway_database, port, tmp_path_factory.mktemp("gateway") / "gateway.log", env)
            stack.callback(site.stop)
            site.start()
            return site

        yield make


@pytest.fixture(scope="session")
def site(new_site: Callable[..., Site]) -> Site:
    """The gateway."""
    return new_site()


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Callable[[str], Container]]:
    """Starts reference containers for one test."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(container(tmp_path, name))
