"""A reading in Prometheus's text form: the names, labels and meanings that alerts and dashboards rely on. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from controlplane.gauges.reading import FailingVariant, Fleet, Leaks, Machinery, Reading, ShortVariant, Traffic

ENDPOINT = ("account_id", "endpoint")
VARIANT = (*ENDPOINT, "variant")

Values = Iterable[tuple[tuple[str, ...], float]]
"""Label values, in the order of the labels' names, and the number."""


@dataclass(frozen=True, eq=False)  # the library keeps it as a key
class _Found(Collector):
    """Hands one reading to the library, which asks for families."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterator[Metric]:
        yield from self.families


def text_of(reading: Reading) -> bytes:
    """The reading as Prometheus scrapes it (text format 0.0.4)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Found(tuple(families(reading))))
    return generate_latest(registry)


def families(reading: Reading) -> Iterator[Metric]:
    """Every gauge, in the order in which they are shown."""
    yield from _of_fleet(reading.fleet)
    yield from _of_traffic(reading.traffic)
    yield from _of_leaks(reading.leaks)
    yield from _of_machinery(reading.machinery)


def _of_fleet(fleet: Fleet) -> Iterator[Metric]:
    yield _by("headrace_endpoints", "Endpoints by status.", "status", fleet.endpoints)
    yield _by("headrace_instances", "Instances by stage; those that are gone are not counted.", "stage", fleet.instances)
    yield _one("headrace_dollars_per_hour", "Price of all live instances, US dollars an hour.", fleet.hourly_price)
    yield _one("headrace_short_variants", "Variants with fewer ready instances than wanted.", fleet.short_count)
    wanted = ((_variant(each), float(each.wanted)) for each in fleet.short)
    ready = ((_variant(each), float(each.ready)) for each in fleet.short)
    yield _many("headrace_variant_wanted_instances", "Instances wanted, of the shortest variants.", VARIANT, wanted)
    yield _many("headrace_variant_ready_instances", "Instances ready, of the shortest variants.", VARIANT, ready)
    text = "Zones and markets in which a type is not asked for now, because it was refused there."
    yield _by("headrace_closed_offerings", text, "instance_type", fleet.closed)


def _of_traffic(traffic: Traffic) -> Iterator[Metric]:
    yield _one("headrace_calls_last_minute", "Calls of all endpoints in the last minute.", traffic.calls)
    text = "Calls of the last minute that the model did not answer, or answered 5xx."
    yield _one("headrace_failed_calls_last_minute", text, traffic.failed)
    calls = ((_variant(each), float(each.calls)) for each in traffic.failing)
    failed = ((_variant(each), float(each.failed)) for each in traffic.failing)
    text = "Calls in the last minute, of the variants with most failures."
    yield _many("headrace_variant_calls_last_minute", text, VARIANT, calls)
    text = "Failed calls in the last minute, of the variants with most of them."
    yield _many("headrace_variant_failed_calls_last_minute", text, VARIANT, failed)
    yield _one("headrace_async_open", "Asynchronous requests that wait or run.", traffic.waiting)
    text = "Age of the oldest asynchronous request that waits or runs."
    yield _one("headrace_async_oldest_seconds", text, traffic.oldest_seconds)
    sizes = (((each.account_id, each.endpoint), float(each.size)) for each in traffic.backlogs)
    ages = (((each.account_id, each.endpoint), each.oldest_seconds) for each in traffic.backlogs)
    text = "Asynchronous requests that wait or run, of the endpoints furthest behind."
    yield _many("headrace_endpoint_async_open", text, ENDPOINT, sizes)
    text = "Age of the oldest asynchronous request, of the endpoints furthest behind."
    yield _many("headrace_endpoint_async_oldest_seconds", text, ENDPOINT, ages)


def _of_leaks(leaks: Leaks) -> Iterator[Metric]:
    text = "Instances and orphans whose end was asked for and is overdue."
    yield _one("headrace_overdue_ends", text, leaks.overdue_ends)
    yield _by("headrace_orphans", "Live instances that no endpoint has, by state.", "state", leaks.orphans)
    text = "Price of the live orphans, US dollars an hour."
    yield _one("headrace_orphans_dollars_per_hour", text, leaks.orphans_hourly_price)
    text = "1 while the orphan sweep is held back until an operator confirms."
    yield _one("headrace_orphan_sweep_held", text, leaks.is_sweep_held)


def _of_machinery(machinery: Machinery) -> Iterator[Metric]:
    yield _by("headrace_live_processes", "Processes that make progress, by role.", "role", machinery.live)
    ages = [] if machinery.table_age_seconds is None else [((), machinery.table_age_seconds)]
    yield _many("headrace_routing_table_age_seconds", "Age of the oldest routing table of a live gateway.", (), ages)
    text = "For how long the endpoint that waits longest for its next look has been due."
    yield _one("headrace_overdue_look_seconds", text, machinery.overdue_look_seconds)


def _variant(each: ShortVariant | FailingVariant) -> tuple[str, ...]:
    return each.account_id, each.endpoint, each.variant


def _one(name: str, text: str, value: float) -> Metric:
    return _many(name, text, (), [((), float(value))])


def _by(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    return _many(name, text, (label,), (((key,), float(value)) for key, value in sorted(values.items())))


def _many(name: str, text: str, labels: tuple[str, ...], values: Values) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for given, value in values:
        family.add_metric(given, value)
    return family
