"""One gateway for the tests of this package; each uses endpoints of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.controlplane.gateway.site import (
    HASTY_SECONDS,
    INVOCATION_TIMEOUT_SECONDS,
    PAYLOAD_LIMIT_BYTES,
    REPOSITORY,
    STREAM_TIMEOUT_SECONDS,
    Container,
    NewContainer,
    Site,
    container,
    mirror,
)
from tests.controlplane.routing.peers import free_port

DATABASE = "gateway_tests"

StartSite = Callable[..., Site]


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
def start_site(gateway_database: str, tmp_path_factory: pytest.TempPathFactory) -> StartSite:
    """Starts a gateway, a process that ends with the stack; `changes` go into its environment."""

    def start(stack: ExitStack, *, knows_routes: bool = True, **changes: str) -> Site:
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
        site.start(knows_routes=knows_routes)
        return site

    return start


@pytest.fixture
def new_site(start_site: StartSite) -> Iterator[Callable[..., Site]]:
    """Starts gateways for one test."""
    with ExitStack() as stack:
        yield partial(start_site, stack)


@pytest.fixture(scope="package")
def site(start_site: StartSite) -> Iterator[Site]:
    """The gateway."""
    with ExitStack() as stack:
        yield start_site(stack)


@pytest.fixture(scope="package")
def hasty_site(start_site: StartSite) -> Iterator[Site]:
    """A gateway that waits for an answer only for a moment."""
    with ExitStack() as stack:
        yield start_site(stack, HEADRACE_INVOCATION_TIMEOUT_SECONDS=str(HASTY_SECONDS))


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[NewContainer]:
    """Starts reference containers for one test."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(container(tmp_path, name))


@pytest.fixture
def chatty_ends(site: Site) -> Iterator[None]:
    """No test finds the gateway still knowing the instances that `chatty` had in the one before."""
    yield
    site.bury("chatty")


@pytest.fixture
def chatty(site: Site, containers: NewContainer, chatty_ends: None) -> Container:
    """The endpoint `chatty`, served by one container."""
    running = containers("one")
    site.publish("chatty", running.target)
    return running
