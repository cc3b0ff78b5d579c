"""The text: what a scraper reads back is what was found, whatever it is called."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from controlplane.gauges.exposition import families, text_of
from controlplane.gauges.reading import Backlog, FailingVariant, Fleet, Leaks, Machinery, Reading, ShortVariant, Traffic

QUIET = Reading(
    Fleet({"InService": 0}, {"ready": 0}, 0.0, (), 0, {}),
    Traffic(0, 0, (), 0, 0.0, ()),
    Leaks(0, {"found": 0}, 0.0, False),
    Machinery({"worker": 0}, None, 0.0),
)

counts = st.integers(0, 10**9)
words = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)


def scraped(reading: Reading) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every series as a scraper understands it: name -> labels and value."""
    found = text_string_to_metric_families(text_of(reading).decode())
    return {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in found}


def test_every_gauge_is_named_and_explained_once() -> None:
    names = [family.name for family in families(QUIET)]
    assert len(set(names)) == len(names)
    assert all(name.startswith("headrace_") for name in names)
    assert all(family.documentation.endswith(".") for family in families(QUIET))


def test_without_a_gateway_no_age_is_told_instead_of_a_young_one() -> None:
    assert scraped(QUIET)["headrace_routing_table_age_seconds"] == []


@given(account=words, endpoint=words, variant=words, wanted=counts, ready=counts)
def test_a_short_variant_is_read_back_whatever_its_name(
    account: str, endpoint: str, variant: str, wanted: int, ready: int
) -> None:
    short = (ShortVariant(account, endpoint, variant, wanted, ready),)
    found = scraped(replace(QUIET, fleet=replace(QUIET.fleet, short=short, short_count=1)))
    labels = {"account_id": account, "endpoint": endpoint, "variant": variant}
    assert found["headrace_variant_wanted_instances"] == [(labels, wanted)]
    assert found["headrace_variant_ready_instances"] == [(labels, ready)]


@given(calls=counts, failed=counts, size=counts, age=st.floats(0, 1e9))
def test_traffic_is_read_back(calls: int, failed: int, size: int, age: float) -> None:
    failing, backlogs = (FailingVariant("1", "e", "v", calls, failed),), (Backlog("1", "e", size, age),)
    found = scraped(replace(QUIET, traffic=Traffic(calls, failed, failing, size, age, backlogs)))
    assert found["headrace_calls_last_minute"] == [({}, calls)]
    assert found["headrace_variant_failed_calls_last_minute"][0][1] == failed
    assert found["headrace_endpoint_async_oldest_seconds"] == [({"account_id": "1", "endpoint": "e"}, age)]
