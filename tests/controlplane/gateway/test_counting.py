"""Calls are counted: each once, by variant, whatever becomes of it, by however many gateways."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from controlplane.gateway.counting import MOST_BUCKETS, Call, Counts, Marks
from controlplane.metrics.series import MetricSetKey
from controlplane.metrics.statistics import Aggregate, merged, statistic
from controlplane.metrics.store import Bucket
from controlplane.routing.table import Route, Target, VariantRoute
from tests.controlplane.gateway.site import LEAST, Container, Site, wait_for
from tests.engines_plugin import ACCOUNT
from tests.fakes.clock import FakeClock


def variant(name: str = "main", targets: int = 1, config: str = "") -> VariantRoute:
    """A variant with so many instances."""
    shown = tuple(Target(str(each), "127.0.0.1:1", "ml.m5.large", False) for each in range(targets))
    return VariantRoute(name, 1.0, LEAST, shown, config_name=config)


def ended(shown: VariantRoute, seconds: float = 0.5, status: int | None = None, name: str = "e") -> Call:
    """A call that took this long, all of it the model's, by a clock that stands still; failed, where it has a status."""
    route = Route("id", ACCOUNT, name, "InService", True, None, (shown,))
    call = Call(0.0, route, shown, model_seconds=seconds)
    if status is not None:
        call.fail(status)
    return call


def unwritten(counts: Counts) -> tuple[list[Bucket], Marks]:
    """All that is to be written, in one piece."""
    return counts.documents(counts.changed())


def found(buckets: list[Bucket], metric: str, **dimensions: str) -> Aggregate | None:
    """What was counted of a metric."""
    wanted = {"EndpointName": "e", "VariantName": "main", **dimensions}
    parts = [next(iter(each.metrics[metric].values())) for each in buckets if each.key.dimensions == wanted]
    return merged(parts)


def test_each_call_is_an_invocation_and_an_average_is_a_rate(fake_clock: FakeClock) -> None:
    counts = Counts()
    for status in (None, 404, 500, 0):
        counts.add(ended(variant(targets=4), status=status))
    no_instance = ended(variant(targets=4))
    no_instance.fail(is_model_error=False)
    counts.add(no_instance)
    buckets, _ = unwritten(counts)
    rates = {
        name: statistic(aggregate, "Average")
        for name in ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors", "Invocations")
        if (aggregate := found(buckets, name)) is not None
    }
    assert rates == {
        "Invocation4XXErrors": 0.2,
        "Invocation5XXErrors": 0.6,
        "InvocationModelErrors": 0.6,
        "Invocations": 1.0,
    }
    shares = found(buckets, "InvocationsPerInstance")
    assert shares is not None
    assert statistic(shares, "Sum") == pytest.approx(5 / 4)


def test_both_fleets_of_a_deployment_are_counted_together_and_each_by_its_configuration(fake_clock: FakeClock) -> None:
    counts = Counts()
    for config, status in (("blue", None), ("green", 500), ("green", None)):
        counts.add(ended(variant(config=config), status=status))
    buckets, marks = unwritten(counts)
    rates = [
        statistic(aggregate, "Average")
        for dimensions in ({}, {"EndpointConfigName": "blue"}, {"EndpointConfigName": "green"})
        if (aggregate := found(buckets, "Invocation5XXErrors", **dimensions)) is not None
    ]
    assert rates == [pytest.approx(1 / 3), 0, 0.5]
    counts.wrote(marks)
    counts.add(ended(variant(config="green")))
    both = found(unwritten(counts)[0], "Invocations")
    assert both is not None
    assert both.count == 4, "what is together is written whole, also where one of its parts has not changed"


def test_latencies_are_microseconds_with_percentiles(fake_clock: FakeClock) -> None:
    counts = Counts()
    for milliseconds in range(1, 101):
        call = ended(variant(), seconds=milliseconds / 1000)
        fake_clock.step(0.0)
        call.started = fake_clock.monotonic() - milliseconds / 1000 - 0.002
        counts.add(call)
    buckets, _ = unwritten(counts)
    model, overhead = found(buckets, "ModelLatency"), found(buckets, "OverheadLatency")
    assert model is not None
    assert overhead is not None
    assert statistic(model, "p99") == pytest.approx(99_000, rel=0.02)
    assert statistic(model, "Average") == pytest.approx(50_500)
    assert statistic(overhead, "Maximum") == pytest.approx(2000, rel=1e-3)


def test_of_asynchronous_attempts_errors_and_the_models_time_are_counted_only(fake_clock: FakeClock) -> None:
    counts = Counts()
    call = ended(variant(), status=500)
    call.is_async = True
    counts.add(call)
    (bucket,) = unwritten(counts)[0]
    assert bucket.metrics.keys() == {
        "Invocation4XXErrors",
        "Invocation5XXErrors",
        "InvocationModelErrors",
        "ModelLatency",
    }


def test_a_call_for_which_no_variant_was_chosen_is_nobodys(fake_clock: FakeClock) -> None:
    counts = Counts()
    counts.add(Call(0.0))
    assert unwritten(counts) == ([], [])


def test_what_is_written_is_not_written_again_until_it_changes(fake_clock: FakeClock) -> None:
    counts = Counts()
    counts.add(ended(variant()))
    buckets, marks = unwritten(counts)
    assert len(buckets) == 1
    assert unwritten(counts)[0] == buckets, "not yet written: it is there again"
    counts.add(ended(variant()))
    counts.wrote(marks)
    later, marks = unwritten(counts)
    assert [each.key for each in later] == [each.key for each in buckets]
    both = found(later, "Invocations")
    assert both is not None
    assert both.count == 2
    counts.wrote(marks)
    assert unwritten(counts)[0] == []


def test_while_nothing_can_be_written_the_newest_buckets_are_kept(fake_clock: FakeClock) -> None:
    counts = Counts()
    for _ in range(MOST_BUCKETS + 10):
        counts.add(ended(variant()))
        fake_clock.step(10)
    buckets, marks = unwritten(counts)
    assert len(buckets) == MOST_BUCKETS
    counts.wrote(marks)
    fake_clock.step(30)
    counts.add(ended(variant()))
    assert len(unwritten(counts)[0]) == 1


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["v", "w"]), st.floats(0, 90), st.booleans()), max_size=40)
)
def test_no_call_is_lost_or_doubled_however_often_it_is_written(calls: list[tuple[str, str, float, bool]]) -> None:
    counts = Counts()
    stored: dict[tuple[MetricSetKey, int, str], Bucket] = {}
    for endpoint, name, seconds, is_written in calls:
        counts.add(ended(variant(name), seconds, name=endpoint))
        buckets, marks = unwritten(counts)
        stored |= {(str(each.key.set_id), each.starts_at, each.source): each for each in buckets}  # type: ignore[misc]
        if is_written:
            counts.wrote(marks)
    total = sum(each.metrics["Invocations"]["None"].count for each in stored.values())
    assert total == len(calls)


Containers = Callable[[str], Container]


def sums(site: Site, endpoint: str, metric: str, variant: str = "main") -> list[tuple[float, float]]:
    """(count, sum) of a metric, one for each source and bucket."""
    with site.database() as connection:
        rows = connection.execute(
            "SELECT value FROM metrics_metricbucket bucket JOIN metrics_metricset kept ON kept.id = bucket.metric_set_id,"
            " jsonb_each(bucket.document -> %s) AS unit (name, value)"
            " WHERE kept.dimensions = jsonb_build_object('EndpointName', %s::text, 'VariantName', %s::text)"
            " AND kept.account_id = %s AND kept.namespace = 'AWS/SageMaker'",
            [metric, endpoint, variant, ACCOUNT],
        ).fetchall()
    return [(row[0][0], row[0][1]) for row in rows]


def total(site: Site, endpoint: str, metric: str, variant: str = "main") -> float:
    """The sum of a metric over everything."""
    return sum(each for _, each in sums(site, endpoint, metric, variant))


def invoke(site: Site, name: str, **options: Any) -> bool:
    """One call, whose model may fail; False where the gateway has just started and knows of no endpoint yet."""
    try:
        site.client().invoke_endpoint(EndpointName=name, Body=b"x", **options)["Body"].read()
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("ModelError", "ServiceUnavailable"):
            raise
        return error.response["Error"]["Code"] == "ModelError"
    return True


def test_good_and_bad_calls_are_in_the_database_a_second_later(site: Site, containers: Containers) -> None:
    name = f"count-{uuid4().hex[:8]}"
    site.publish(name, containers("a").target)
    for _ in range(3):
        invoke(site, name)
    for status in (418, 500, 503):
        invoke(site, name, CustomAttributes=f"mode=http:{status}")
    wait_for(lambda: total(site, name, "Invocations") == 6)
    assert total(site, name, "Invocation4XXErrors") == 1
    assert total(site, name, "Invocation5XXErrors") == 2
    assert total(site, name, "InvocationModelErrors") == 3
    assert total(site, name, "ModelLatency") > total(site, name, "OverheadLatency") * 0.01 > 0


def test_two_gateways_and_a_restart_add_up_and_double_nothing(
    site: Site, new_site: Callable[..., Site], containers: Containers
) -> None:
    other = new_site()
    name = f"count-{uuid4().hex[:8]}"
    site.publish(name, containers("a").target)
    for _ in range(5):
        invoke(site, name)
        invoke(other, name)
    wait_for(lambda: total(site, name, "Invocations") == 10)
    for _ in range(2):
        invoke(other, name)
    other.stop()
    assert total(site, name, "Invocations") == 12, "a gateway that is stopped writes what it has"
    other.start()
    wait_for(lambda: invoke(other, name))
    wait_for(lambda: total(site, name, "Invocations") == 13)
    assert len(sums(site, name, "Invocations")) >= 3


def test_a_gateway_that_is_killed_loses_its_last_second_at_most(
    new_site: Callable[..., Site], containers: Containers
) -> None:
    site = new_site()
    name = f"count-{uuid4().hex[:8]}"
    site.publish(name, containers("a").target)
    for _ in range(4):
        invoke(site, name)
    wait_for(lambda: total(site, name, "Invocations") == 4)
    assert site.process is not None
    site.process.kill()
    site.process.wait()
    site.start()
    wait_for(lambda: invoke(site, name))
    wait_for(lambda: total(site, name, "Invocations") == 5)
