"""A worker's invocation loop in the test's own process: real database, real store, real containers; time may be moved."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, transaction
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from controlplane.core import clock
from controlplane.core.ids import new_uuid
from controlplane.gateway.counting import Call, Counts
from controlplane.invocations.line import Line
from controlplane.invocations.models import AsyncInvocation, AsyncPayload
from controlplane.metrics import store
from controlplane.routing.models import RoutingSnapshot
from controlplane.routing.table import AsyncInference, Route, Target, VariantRoute, encode
from controlplane.routing.upstream import UpstreamClient
from tests import aws
from tests.controlplane.gateway.site import Container
from tests.controlplane.invocations.letters import endpoint
from tests.engines_plugin import ACCOUNT
from workers.invocations.inputs import Https, Inputs
from workers.invocations.leased import Leased
from workers.invocations.ledger import MANY
from workers.invocations.measures import Measures
from workers.invocations.outcomes import Outcomes
from workers.invocations.patient import PatientLedger
from workers.invocations.queue import CLAIMING, Queue
from workers.invocations.run import Runner
from workers.invocations.store import Store as ObjectStore

T = TypeVar("T")

BUCKET = "worker-tests"
VARIANT = "main"

PUBLISH = """
INSERT INTO routing_routingsnapshot (endpoint_id, account_id, endpoint_name, revision, document, changed_at)
VALUES (%s, %s, 'later', 1, %s, clock_timestamp())
ON CONFLICT (endpoint_id) DO UPDATE SET document = excluded.document, revision = routing_routingsnapshot.revision + 1
"""


def database_url() -> str:
    """Where Django's test database is."""
    server, _, _ = settings.HEADRACE.database_url.rpartition("/")
    return f"{server}/{connection.settings_dict['NAME']}"


def s3() -> Any:
    """A client of the store, with the bucket of these tests."""
    client = aws.client("s3", endpoint_url=settings.HEADRACE.s3_endpoint_url, region_name="us-east-1")
    if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    return client


def object_at(location: str) -> bytes | None:
    """The object at an s3:// location, None where there is none."""
    bucket, _, key = location.removeprefix("s3://").partition("/")
    client = s3()
    try:
        return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())
    except client.exceptions.NoSuchKey:
        return None


def queue_up(body: bytes = b"x", **changes: Any) -> AsyncInvocation:
    """An accepted request, as the gateway stores it; of an endpoint of its own, unless another is named."""
    s3()
    name, now = uuid4().hex, changes.pop("accepted_at", clock.now())
    values: dict[str, Any] = {
        "id": new_uuid(),
        "account_id": ACCOUNT,
        "endpoint_id": new_uuid(),
        "endpoint_name": "later",
        "inference_id": "mine",
        "content_type": "text/plain",
        "state": "queued",
        "accepted_at": now,
        "expires_at": now + timedelta(hours=6),
        "timeout_seconds": 900,
        "due_at": now,
        "output_location": f"s3://{BUCKET}/out/{name}.out",
        "failure_location": f"s3://{BUCKET}/failed/{name}-error.out",
        **changes,
    }
    with transaction.atomic():  # or else a worker could run it without its payload
        row = AsyncInvocation.objects.create(**values)
        if not row.input_location:
            AsyncPayload.objects.create(invocation=row, body=body)
    return row


def serve(name: str, *models: Container, max_concurrent: int | None = None, phase: str = "InService") -> UUID:
    """An asynchronous endpoint that serves from these containers."""
    now = clock.now()
    endpoint_id = endpoint(now, name, phase=phase).id
    targets = tuple(Target(str(instance_at(each.address)), each.address, "ml.m5.large", False) for each in models)
    inference = AsyncInference("s3://b/out", "", max_concurrent)
    route = Route(
        str(endpoint_id), ACCOUNT, name, "InService", True, inference, (VariantRoute("main", 1.0, "RANDOM", targets),)
    )
    RoutingSnapshot.objects.create(
        endpoint_id=endpoint_id,
        account_id=ACCOUNT,
        endpoint_name=name,
        revision=1,
        document=encode(route),
        changed_at=now,
    )
    return endpoint_id


@dataclass
class Pauses:
    """Takes the place of waiting: what was to be waited, and what happens meanwhile."""

    meanwhile: Callable[[int], None] = lambda count: None
    seconds: list[float] = field(default_factory=list)
    move: Callable[[float], None] = lambda seconds: None

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.move(seconds)
        self.meanwhile(len(self.seconds))


@dataclass
class Bench:
    """A runner and its queue over one endpoint."""

    endpoint_id: UUID
    pool: AsyncConnectionPool
    queue: Queue
    ledger: PatientLedger
    store: ObjectStore
    measures: Measures
    runner: Runner
    pauses: Pauses

    def route(self, *addresses: str, max_concurrent: int | None = None) -> Route:
        """The endpoint as it serves from these addresses; see `instance_at` for the instances' ids."""
        return route_of(self.endpoint_id, *addresses, max_concurrent=max_concurrent)

    async def publish(self, route: Route) -> None:
        """Let claims know of this route."""
        async with self.pool.connection() as connected:
            await connected.execute(PUBLISH, [self.endpoint_id, ACCOUNT, Jsonb(encode(route))])

    async def claim(self, address: str, limit: int = 32, max_concurrent: int | None = None) -> list[Leased]:
        """Lease what is due."""
        await self.publish(self.route(address, max_concurrent=max_concurrent))
        return await self.queue.claim(self.endpoint_id, limit)

    async def pool_do(self, statement: str) -> None:
        """What somebody else does to the rows meanwhile."""
        async with self.pool.connection() as connected:
            await connected.execute(statement)

    async def run(self, leased: Leased, address: str) -> None:
        """Run one."""
        route = self.route(address)
        await self.runner.run(leased, address, Call(clock.monotonic(), route, route.variants[0], is_async=True))

    async def run_next(self, address: str) -> None:
        """Claim the one that is due, and run it."""
        claimed = await self.claim(address, 1)
        assert len(claimed) == 1
        await self.run(claimed[0], address)


def route_of(endpoint_id: UUID, *addresses: str, max_concurrent: int | None = None) -> Route:
    """An endpoint of one variant that serves from these addresses."""
    targets = tuple(Target(str(instance_at(address)), address, "ml.m5.large", False) for address in addresses)
    variant = VariantRoute(VARIANT, 1.0, "RANDOM", targets)
    inference = AsyncInference("s3://b/out", "", max_concurrent)
    return Route(str(endpoint_id), ACCOUNT, "later", "InService", True, inference, (variant,))


def instance_at(address: str) -> UUID:
    """The id of the instance at an address."""
    return UUID(int=int(address.rpartition(":")[2]))


@asynccontextmanager
async def bench(
    endpoint_id: UUID,
    *,
    pauses: Pauses | None = None,
    objects: ObjectStore | None = None,
    https: Https | None = None,
    input_limit: int = 1_000_000,
) -> AsyncIterator[Bench]:
    """A runner on this event loop."""
    env = settings.HEADRACE
    pool = AsyncConnectionPool(database_url(), min_size=1, max_size=4, open=False, kwargs={"autocommit": True})
    line = Line(database_url(), *CLAIMING, *MANY)
    await pool.open()
    queue, ledger, counted = Queue(pool, line), PatientLedger(pool, line), Measures()
    objects = objects or ObjectStore(env.s3_endpoint_url, env.region)
    pauses = pauses or Pauses()
    upstream = UpstreamClient()
    outcomes = Outcomes(ledger, objects, counted, env.region, pause=pauses)
    inputs = Inputs(objects, https or Https(frozenset()), input_limit)
    runner = Runner(ledger, outcomes, inputs, upstream, Counts("dispatcher"), counted)
    try:
        yield Bench(endpoint_id, pool, queue, ledger, objects, counted, runner, pauses)
    finally:
        upstream.close()
        objects.close()
        inputs.threads.shutdown()
        await line.close()
        await pool.close()


def counts_of(buckets: Iterable[store.Bucket]) -> dict[str, list[float]]:
    """The sums of what was counted, by metric name."""
    found: dict[str, list[float]] = {}
    for bucket in buckets:
        for name, units in bucket.metrics.items():
            found.setdefault(name, []).extend(aggregate.total for aggregate in units.values())
    return found


def run_once(
    row: AsyncInvocation, address: str, *, counted: list[store.Bucket] | None = None, **parts: Any
) -> AsyncInvocation:
    """Claim and run what is due at the row's endpoint, which should be this request; returns it as it is then.

    What was counted goes into `counted`; `parts` are the bench's.
    """

    async def work() -> None:
        async with bench(row.endpoint_id, **parts) as site:
            await site.run_next(address)
            if counted is not None:
                counted.extend(site.measures.taken()[1])

    do(work())
    row.refresh_from_db()
    return row


def do(work: Coroutine[Any, Any, T]) -> T:
    """Run it on an event loop of its own."""
    return asyncio.run(work)
