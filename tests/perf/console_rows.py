"""An installation full of rows for `tests.perf.console`: a few made by the product itself, multiplied by SQL."""

from collections.abc import Mapping
from datetime import timedelta

from django.conf import settings
from django.db import connection, models

from controlplane.auth.models import Account, Installation
from controlplane.catalog.models import EndpointConfig, Model
from controlplane.core import clock
from controlplane.endpoints.models import Endpoint, EndpointVariant, VariantPool
from controlplane.fleet.models import Instance, LaunchAttempt
from controlplane.invocations.models import AsyncInvocation
from controlplane.observability.heartbeats import beat
from controlplane.observability.models import Event
from tests.controlplane.invocations.letters import letter
from tests.fakes.clock import FakeClock
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers
from workers.loop.run import reconcile
from workers.metrics import backlog
from workers.providers import registry

BASE = 1_000_000
"""Ids that are numbers begin here, past those that the product gave."""

ENDED_PER_LIVE = 4
LIVE_PER_ENDPOINT = 3


def fill(endpoints: int, requests: int) -> None:
    """So many endpoints, each with three live instances and twelve ended ones; so many requests, and as many events."""
    _seed()
    _fleet(endpoints)
    _requests(endpoints, requests)
    _multiply(
        Event,
        requests,
        {
            "id": f"{BASE} + n",
            "at": "now() - (%(count)s - n) * interval '1 second'",
            "subject_id": _uuid("endpoint", f"1 + n %% {endpoints}"),
            "subject_name": f"'endpoint-' || (1 + n %% {endpoints})",
            "reason": "(array['LaunchRequested','PoolRefused','InstanceReady','Scaled','InService'])[1 + n %% 5]",
        },
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    offers.tell(clock.now())
    backlog.sample(clock.now())
    for role in ("scheduler", "worker", "gateway"):
        beat(role, clock.now())


def _seed() -> None:
    """One endpoint that serves and one for asynchronous calls, through the API's operations."""
    now = clock.now()
    Account.objects.get_or_create(account_id=settings.HEADRACE.account_id, defaults={"created_at": now})
    Installation.objects.get_or_create(id=1, defaults={"owner": "bench", "created_at": now})
    plane = Plane(registry.get("simulated"), FakeClock(now))
    plane.create("first", types=(THIRD, SECOND, FIRST), asynchronous=True)
    for _ in range(40):
        reconcile(Endpoint.objects.get().id)
    if Endpoint.objects.get().phase != "InService":
        raise RuntimeError("the endpoint did not come into service")
    letter(Endpoint.objects.get(), now, "completed", payload=None)


def _fleet(count: int) -> None:
    named = {"name": "'endpoint-' || n"}
    _multiply(Model, count, {"id": _uuid("model"), **named})
    _multiply(EndpointConfig, count, {"id": _uuid("config"), **named})
    _multiply(Endpoint, count, {"id": _uuid("endpoint"), **named, "look_again_at": "now() + interval '1 day'"})
    _multiply(
        EndpointVariant,
        count,
        {"id": f"{BASE} + n", "endpoint_id": _uuid("endpoint"), "current_count": "3", "desired_count": "3"},
    )
    _multiply(VariantPool, count, {"id": f"{BASE} + n", "variant_id": f"{BASE} + n"})
    live = count * LIVE_PER_ENDPOINT
    whose = {
        "endpoint_id": _uuid("endpoint", f"1 + n %% {count}"),
        "variant_id": f"{BASE} + 1 + n %% {count}",
        "pool_id": f"{BASE} + 1 + n %% {count}",
    }
    alike = {
        "provider_id": "'i-' || n",
        "token": "'token-' || n",
        "launched_at": "now() - n %% 864000 * interval '1 second'",
        **whose,
    }
    types = "(array['ml.m5.large','ml.g4dn.xlarge','ml.g5.2xlarge','ml.g6.xlarge'])[1 + n %% 4]"
    _multiply(Instance, live, {"id": _uuid("live"), **alike, "instance_type": types})
    ended = {
        **alike,
        "id": _uuid("ended"),
        "provider_id": "'e-' || n",
        "token": "'ended-' || n",
        "stage": "'terminated'",
        "stage_since": "now() - n %% 800000 * interval '1 second'",
    }
    _multiply(Instance, live * ENDED_PER_LIVE, ended)
    attempts = {"token": "'attempt-' || n", **whose, "called_at": "now() - n * interval '1 second'"}
    _multiply(LaunchAttempt, live * (ENDED_PER_LIVE + 1), attempts)


def _requests(endpoints: int, count: int) -> None:
    """Nine in ten are answered, the others wait or failed; a tenth of the endpoints has them all."""
    owners = max(endpoints // 10, 1)
    state = "CASE WHEN n %% 10 > 0 THEN 'completed' WHEN n %% 20 = 0 THEN 'failed' ELSE 'queued' END"
    _multiply(
        AsyncInvocation,
        count,
        {
            "id": _uuid("request"),
            "endpoint_id": _uuid("endpoint", f"1 + n %% {owners}"),
            "endpoint_name": f"'endpoint-' || (1 + n %% {owners})",
            "inference_id": "'inference-' || n",
            "state": state,
            "failure_kind": "CASE WHEN n %% 20 = 0 THEN 'timeout' ELSE '' END",
            "accepted_at": "now() - n * interval '1 second'",
            "due_at": "now() + interval '1 day'",
            "ended_at": "CASE WHEN n %% 10 > 0 OR n %% 20 = 0 THEN now() - n * interval '1 second' END",
        },
    )


def _uuid(kind: str, number: str = "n") -> str:
    return f"md5('{kind}' || ({number}))::uuid"


def _multiply(model: type[models.Model], count: int, changes: Mapping[str, str]) -> None:
    """So many rows like the first one, with these columns as SQL of `n`, from 1 on."""
    columns = [field.column for field in model._meta.concrete_fields]
    values = ", ".join(changes.get(column, f'"like"."{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    table, key = model._meta.db_table, model._meta.pk.column
    statement = (
        f"INSERT INTO {table} ({names}) SELECT {values} FROM generate_series(1, %(count)s) AS n, "
        f'(SELECT * FROM {table} ORDER BY {key} LIMIT 1) AS "like"'
    )
    began = clock.monotonic()
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(statement, {"count": count})
    print(f"  {count:>9,} rows of {model.__name__} in {timedelta(seconds=clock.monotonic() - began)}", flush=True)
