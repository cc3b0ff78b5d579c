"""Routing strategies through the gateway, before real containers."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from controlplane.core import clock
from controlplane.routing.table import PrefixAware, Target, VariantRoute
from tests.controlplane.gateway.engines import EngineProcess, engine
from tests.controlplane.gateway.held import held
from tests.controlplane.gateway.site import Container, Site, wait_for
from tests.controlplane.routing.peers import free_port

PREFIX_LENGTH = 1024


def variants(strategy: str, *targets: Target, threshold: int = 64) -> tuple[VariantRoute, ...]:
    return (VariantRoute("main", 1.0, strategy, targets, prefix_aware=PrefixAware(PREFIX_LENGTH, threshold)),)


def body(prefix: int, tail: str = "", mode: str = "name") -> bytes:
    """A body that begins like every other of this prefix, and is answered with the name of the container."""
    return f"#mode={mode}\n{prefix}\n".encode().ljust(PREFIX_LENGTH, b".") + tail.encode()


def call(site: Site, endpoint: str, data: bytes, identity: str = "") -> str:
    """The name of the container that answers a call."""
    headers = {"X-Amzn-SageMaker-Prefix-Aware-Id": identity} if identity else {}
    answer = site.post(f"/endpoints/{endpoint}/invocations", data, headers)
    assert answer.status == 200, answer.body
    return answer.body.decode()


@pytest.fixture(scope="module")
def steady_site(start_site: Callable[..., Site]) -> Iterator[Site]:
    """A gateway without a slow start, so that newcomers get their share at once, and with a type that can carry more."""
    changes = {
        "HEADRACE_SLOW_START_SECONDS": "0",
        "HEADRACE_TYPE_WEIGHTS": '{"big": 4}',
    }
    with ExitStack() as stack:
        yield start_site(stack, **changes)


@pytest.fixture
def seven(containers: Callable[[str], Container]) -> list[Container]:
    return [containers(f"c{number}") for number in range(7)]


# PREFIX_AWARE.


def test_prompts_that_begin_alike_reach_one_container(site: Site, containers: Callable[[str], Container]) -> None:
    rows = [containers(name) for name in "abc"]
    site.publish("alike", variants=variants("PREFIX_AWARE", *(row.target for row in rows)))
    homes = {prefix: {call(site, "alike", body(prefix, f"tail {turn}")) for turn in range(3)} for prefix in range(60)}
    assert all(len(names) == 1 for names in homes.values())
    assert set.union(*homes.values()) == {"a", "b", "c"}


def test_an_identity_makes_another_key_of_the_same_prompt(site: Site, containers: Callable[[str], Container]) -> None:
    rows = [containers(name) for name in "abc"]
    site.publish("tenants", variants=variants("PREFIX_AWARE", *(row.target for row in rows)))
    names = {identity: call(site, "tenants", body(1), identity) for identity in map(str, range(60))}
    assert set(names.values()) == {"a", "b", "c"}
    assert all(call(site, "tenants", body(1, "more"), identity) == name for identity, name in names.items())


def test_above_the_threshold_calls_go_elsewhere_and_then_come_back(steady_site: Site) -> None:
    with ExitStack() as stack:
        rows = [stack.enter_context(held(b"answer")) for _ in range(3)]
        steady_site.publish("busy", variants=variants("PREFIX_AWARE", *(row.target for row in rows), threshold=2))
        pool = stack.enter_context(ThreadPoolExecutor(3))
        calls = [pool.submit(steady_site.post, "/endpoints/busy/invocations", body(5)) for _ in range(3)]
        wait_for(lambda: sum(row.received for row in rows) == 3)
        assert sorted(row.received for row in rows) == [0, 1, 2]
        for row in rows:
            row.allow(3)
        assert [each.result().status for each in calls] == [200] * 3
        home = max(rows, key=lambda row: row.received)
        assert steady_site.post("/endpoints/busy/invocations", body(5)).status == 200
        assert home.received == 3


def test_a_fleet_that_grows_and_shrinks_under_load_moves_an_eighth_and_loses_nothing(
    steady_site: Site, seven: list[Container], containers: Callable[[str], Container]
) -> None:
    site, prefixes, eighth = steady_site, 240, containers("c7")
    *small, eighth_target = [
        # Which prefixes belong to whom follows from the names: the same in every run.
        replace(row.target, instance_id=f"elastic-{number}")
        for number, row in enumerate([*seven, eighth])
    ]
    site.publish("elastic", variants=variants("PREFIX_AWARE", *small))
    with load(site, "elastic", prefixes) as answers:
        before = homes_of(site, prefixes)
        site.publish("elastic", variants=variants("PREFIX_AWARE", *small, eighth_target))
        wait_for(lambda: "c7" in homes_of(site, 40).values())
        grown = homes_of(site, prefixes)
        site.publish("elastic", variants=variants("PREFIX_AWARE", *small, replace(eighth_target, is_draining=True)))
        wait_for(lambda: is_drained(site, eighth_target.instance_id))
        eighth.process.kill()
        site.publish("elastic", variants=variants("PREFIX_AWARE", *small))
        after = homes_of(site, prefixes)
        wait_for(lambda: answers[200] > 300)
    moved = [prefix for prefix in before if grown[prefix] != before[prefix]]
    assert 0.06 < len(moved) / prefixes < 0.20
    assert {grown[prefix] for prefix in moved} == {"c7"}
    assert after == before
    assert set(answers) == {200}


def homes_of(site: Site, prefixes: int) -> dict[int, str]:
    """Which container answers each prefix now."""
    with ThreadPoolExecutor(4) as pool:
        names = pool.map(lambda prefix: call(site, "elastic", body(prefix)), range(prefixes))
        return dict(enumerate(names))


def is_drained(site: Site, instance_id: str) -> bool:
    """Whether this gateway says that a draining instance has no calls."""
    assert site.process is not None
    with site.database() as connection:
        found = connection.execute(
            "SELECT draining -> %s FROM fleet_gatewayheartbeat WHERE gateway_id LIKE %s",
            [instance_id, f"%:{site.process.pid}"],
        ).fetchone()
    return found is not None and found[0] == 0


class load:
    """Calls without a pause, by two callers, for as long as the context lasts; how many ended in which status."""

    def __init__(self, site: Site, endpoint: str, prefixes: int) -> None:
        self._site, self._path, self._prefixes = site, f"/endpoints/{endpoint}/invocations", prefixes
        self._is_over = threading.Event()
        self._counts: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(2)]

    def __enter__(self) -> Counter[int]:
        for thread in self._threads:
            thread.start()
        return self._counts

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        while not self._is_over.is_set():
            number += 7
            self._counts[self._site.post(self._path, body(number % self._prefixes, "load")).status] += 1


def test_an_instance_of_a_heavier_type_gets_more_of_the_calls(
    steady_site: Site, containers: Callable[[str], Container]
) -> None:
    big, small = containers("big"), containers("small")
    targets = [replace(big.target, instance_type="big"), small.target]
    steady_site.publish("mixed", variants=variants("RANDOM", *targets))
    counts = Counter(call(steady_site, "mixed", body(number)) for number in range(150))
    assert 0.66 < counts["big"] / counts.total() < 0.94


# Instances that fail.


def test_an_instance_that_cannot_be_reached_is_ejected_and_no_call_is_lost(
    site: Site, containers: Callable[[str], Container]
) -> None:
    alive = [containers(name) for name in "ab"]
    dead = Target(str(uuid4()), f"127.0.0.1:{free_port()}", "ml.m5.large", False)
    site.publish("limping", variants=variants("RANDOM", dead, *(row.target for row in alive)))
    assert {call(site, "limping", body(number)) for number in range(60)} == {"a", "b"}
    assert f"instance {dead.instance_id} at {dead.address} is passed over for a while" in site.log()


def test_an_instance_that_answers_5xx_is_ejected_but_never_the_last(
    site: Site, containers: Callable[[str], Container]
) -> None:
    only = containers("only")
    site.publish("sick", variants=variants("LEAST_OUTSTANDING_REQUESTS", only.target))
    statuses = [site.post("/endpoints/sick/invocations", body(1, mode="http:500")).status for _ in range(6)]
    assert statuses == [424] * 6
    assert f"instance {only.instance_id}" in site.log()
    assert call(site, "sick", body(1)) == "only"


def test_a_models_4xx_says_nothing_against_the_instance(site: Site, containers: Callable[[str], Container]) -> None:
    row = containers("picky")
    site.publish("picky", variants=variants("RANDOM", row.target))
    for _ in range(8):
        site.post("/endpoints/picky/invocations", body(1, mode="http:418"))
    assert f"instance {row.instance_id}" not in site.log()


# KV_AWARE.


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Callable[..., EngineProcess]]:
    """Starts engine simulators for one test."""
    with ExitStack() as stack:
        yield lambda **env: stack.enter_context(engine(tmp_path, **env))


def ask(site: Site, endpoint: str, text: str) -> int:
    """How many tokens of a prompt the engine that answers had cached."""
    asked = {"messages": [{"role": "user", "content": text}], "max_tokens": 2}
    answer = site.post(f"/endpoints/{endpoint}/invocations", json.dumps(asked).encode())
    assert answer.status == 200, answer.body
    return int(answer.json["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.mark.parametrize("style", ["vllm", "vllm-old", "sglang"])
def test_follow_ups_go_to_the_engine_that_has_their_beginning_cached(
    site: Site, engines: Callable[..., EngineProcess], style: str
) -> None:
    rows = [engines(ENGINE_METRICS=style, ENGINE_TIME_SCALE="0.01") for _ in range(3)]
    name = f"cached-{style}"
    site.publish(name, variants=variants("KV_AWARE", *(row.target for row in rows)))
    ask(site, name, "wake the scraper")
    wait_for(lambda: all(row.requests("/metrics") for row in rows))
    beginnings = [f"{number} once upon a time " * 100 for number in range(6)]
    assert [ask(site, name, beginning) for beginning in beginnings] == [0] * 6
    follow_ups = [ask(site, name, f"{beginning} and {turn}") for beginning in beginnings for turn in range(3)]
    assert min(follow_ups) > 400


def test_engines_are_asked_about_once_a_second_and_only_where_it_matters(
    site: Site, engines: Callable[..., EngineProcess]
) -> None:
    by_cache, by_chance = engines(), engines()
    began = clock.monotonic()
    site.publish("asked", variants=variants("KV_AWARE", by_cache.target))
    site.publish("unasked", variants=variants("RANDOM", by_chance.target))
    ask(site, "asked", "hello")
    ask(site, "unasked", "hello")
    wait_for(lambda: by_cache.requests("/metrics") >= 3)
    asked = by_cache.requests("/metrics")
    assert asked <= clock.monotonic() - began + 2
    assert by_chance.requests("/metrics") == 0


def test_containers_without_metrics_are_routed_to_all_the_same(site: Site, containers: Callable[[str], Container]) -> None:
    rows = [containers(name) for name in "ab"]
    site.publish("mute", variants=variants("KV_AWARE", *(row.target for row in rows)))
    assert {call(site, "mute", body(number)) for number in range(30)} == {"a", "b"}
