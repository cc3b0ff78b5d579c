"""PostgreSQL, Valkey and the store together, for one data directory: the supervisor's first three, and the tests'."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded import postgres, store, valkey
from controlplane.embedded.child import MARK, Child, Spec
from controlplane.embedded.kept import read_ports, read_secrets


@dataclass(frozen=True)
class Engines:
    """Where the engines are, and the specs of those that are embedded (a URL in the environment replaces one)."""

    database_url: str
    redis_url: str
    s3_endpoint_url: str
    access_key_id: str
    secret_access_key: str
    specs: tuple[Spec, ...]
    has_embedded_store: bool
    postgres_port: int
    postgres_password: str

    def finish(self, name: str) -> None:
        """What an engine needs once it is ready."""
        if name == "postgres":
            postgres.ensure_database(self.postgres_port, self.postgres_password)


def plan(data_dir: Path, env: Mapping[str, str]) -> Engines:
    """Which engines to start for this data directory; makes their directories."""
    data_dir.mkdir(parents=True, exist_ok=True)
    logs = data_dir / "logs"
    logs.mkdir(exist_ok=True)
    kept, _ = read_secrets(data_dir)
    ports = read_ports(data_dir, ["postgres", "valkey", "store"])
    access_key_id = env.get("HEADRACE_ACCESS_KEY_ID") or kept["access_key_id"]
    secret_access_key = env.get("HEADRACE_SECRET_ACCESS_KEY") or kept["secret_access_key"]
    database_url, redis_url = env.get("HEADRACE_DATABASE_URL"), env.get("HEADRACE_REDIS_URL")
    s3_endpoint_url = env.get("HEADRACE_S3_ENDPOINT_URL")
    specs: list[Spec] = []
    if not database_url:
        place = postgres.find_place(data_dir)
        password = kept["postgres_password"]
        specs.append(postgres.prepare(place, ports["postgres"], password, logs / "postgres.log"))
    if not redis_url:
        specs.append(valkey.prepare(data_dir, ports["valkey"], kept["valkey_password"], logs / "valkey.log"))
    if not s3_endpoint_url:
        log = logs / "store.log"
        specs.append(store.prepare(data_dir, ports["store"], access_key_id, secret_access_key, log))
    return Engines(
        database_url=database_url or postgres.url(ports["postgres"], kept["postgres_password"]),
        redis_url=redis_url or valkey.url(ports["valkey"], kept["valkey_password"]),
        s3_endpoint_url=s3_endpoint_url or store.url(ports["store"]),
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        specs=tuple(marked(spec, data_dir) for spec in specs),
        has_embedded_store=not s3_endpoint_url,
        postgres_port=ports["postgres"],
        postgres_password=kept["postgres_password"],
    )


def marked(spec: Spec, data_dir: Path) -> Spec:
    """The spec with the mark by which leftovers are found."""
    return Spec(**{**spec.__dict__, "env": {**spec.env, MARK: str(data_dir)}})


@contextmanager
def running(data_dir: Path, env: Mapping[str, str]) -> Iterator[Engines]:
    """Start the engines, and stop them at the end."""
    engines = plan(data_dir, env)
    children = [Child(spec) for spec in engines.specs]
    try:
        for child in children:
            child.start()
        for child in children:
            child.wait_ready(threading.Event())
            engines.finish(child.spec.name)
        yield engines
    finally:
        for child in reversed(children):
            child.stop()
