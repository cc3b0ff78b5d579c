"""One suite, all providers: what the fleet controller relies on, and the finer points: repeated and racing calls, several
processes, strange names."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from controlplane.core.outside import CalledInsideTransaction
from tests.contract.sites import OTHER_TYPE, TYPE, Site, launch_in_processes, request_for, running
from tests.contract.waiting import wait
from workers.providers.base import InstanceStatus, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError


def launch(site: Site, token: str, **what: str) -> ProviderInstance:
    return site.provider.launch(request_for(site.provider, token, **what))


def refusal(site: Site, token: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        launch(site, token)
    return caught.value


def kind_of_terminate(site: Site, provider_id: str) -> ErrorKind | None:
    try:
        site.provider.terminate(provider_id)
    except ProviderError as error:
        return error.kind
    return None


def end(site: Site, instance: ProviderInstance) -> None:
    site.provider.terminate(instance.provider_id)
    wait(lambda: not site.provider.describe([instance.provider_id]))


def test_a_token_launches_once(site: Site) -> None:
    first, again = launch(site, "t"), launch(site, "t")
    assert first.provider_id == again.provider_id
    assert first.launched_at == again.launched_at
    assert len(site.provider.list_owned("us")) == 1


def test_slots_are_filled_as_far_as_they_go_and_then_refused_as_capacity(site: Site) -> None:
    site.set_capacity(TYPE, 2)
    launch(site, "a")
    launch(site, "b")
    refused = refusal(site, "c")
    assert refused.kind is ErrorKind.CAPACITY
    assert TYPE in refused.message
    assert site.provider.find("c") is None


def test_a_known_token_is_answered_even_when_nothing_is_free(site: Site) -> None:
    site.set_capacity(TYPE, 1)
    first = launch(site, "t")
    site.set_capacity(TYPE, 0)
    assert launch(site, "t").provider_id == first.provider_id


def test_a_refused_token_can_be_launched_once_there_is_capacity(site: Site) -> None:
    site.set_capacity(TYPE, 0)
    assert refusal(site, "t").kind is ErrorKind.CAPACITY
    assert launch(site, "u", instance_type=OTHER_TYPE).instance_type == OTHER_TYPE
    site.set_capacity(TYPE, 1)
    assert launch(site, "t").token == "t"


def test_concurrent_launches_never_exceed_the_slots(site: Site) -> None:
    site.set_capacity(TYPE, 3)

    def attempt(number: int) -> str:
        try:
            launch(site, f"t{number}")
        except ProviderError as error:
            return error.kind.value
        return "launched"

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(attempt, range(8)))
    assert sorted(results) == ["capacity"] * 5 + ["launched"] * 3
    assert len(site.provider.list_owned("us")) == 3


def test_find_starts_nothing(site: Site) -> None:
    assert site.provider.find("t") is None
    assert site.provider.list_owned("us") == []


def test_an_instance_is_found_described_and_listed_for_its_owner_alone(site: Site) -> None:
    mine, other = launch(site, "a"), launch(site, "b", owner="them")
    found = site.provider.find("a")
    assert found is not None
    assert (found.provider_id, found.token, found.owner) == (mine.provider_id, "a", "us")
    assert (found.instance_type, found.zone) == (TYPE, site.provider.zones[0])
    assert [each.provider_id for each in site.provider.list_owned("us")] == [mine.provider_id]
    assert [each.provider_id for each in site.provider.list_owned("them")] == [other.provider_id]


def test_describe_leaves_out_what_it_does_not_know(site: Site) -> None:
    one = launch(site, "a")
    launch(site, "b")
    names = [one.provider_id, "nonsense", "../../etc/passwd", "", "*", "local-" + "0" * 24, "i-" + "0" * 17]
    assert set(site.provider.describe(names)) == {one.provider_id}
    assert site.provider.describe([]) == {}


def test_a_running_instance_answers_ping(site: Site) -> None:
    instance = running(site.provider, launch(site, "a"))
    wait(lambda: site.provider.ping(instance, 2.0).is_healthy)


def test_a_terminated_instance_is_gone_and_frees_its_slot(site: Site) -> None:
    site.set_capacity(TYPE, 1)
    instance = launch(site, "a")
    end(site, instance)
    assert site.provider.find("a") is None
    assert site.provider.list_owned("us") == []
    launch(site, "b")
    assert kind_of_terminate(site, instance.provider_id) is ErrorKind.GONE


def test_terminate_can_be_repeated_and_ends_in_gone(site: Site) -> None:
    launched = launch(site, "t")
    site.provider.terminate(launched.provider_id)
    wait(lambda: kind_of_terminate(site, launched.provider_id) is ErrorKind.GONE)


@pytest.mark.parametrize("provider_id", ["nonsense", "", "../../etc", "local-" + "0" * 24, "i-" + "0" * 17])
def test_terminating_what_never_was_is_gone(site: Site, provider_id: str) -> None:
    assert kind_of_terminate(site, provider_id) is ErrorKind.GONE


def test_an_exited_instance_is_remembered_by_its_token_and_holds_no_slot(site: Site) -> None:
    site.set_capacity(TYPE, 1)
    launched = running(site.provider, launch(site, "t"))
    site.break_container(launched)
    seen = launch(site, "t")
    assert (seen.provider_id, seen.status) == (launched.provider_id, InstanceStatus.EXITED)
    assert (seen.failure, seen.detail, seen.address) == (StartFailure.CONTAINER_EXITED, "exited with code 1", "")
    found = site.provider.find("t")
    assert found is not None
    assert found.status is InstanceStatus.EXITED
    assert not site.provider.ping(launched, 1.0).is_healthy
    assert launch(site, "u").token == "u"
    end(site, launched)
    assert site.provider.find("t") is None


def test_lowered_capacity_leaves_running_instances_alone(site: Site) -> None:
    launched = launch(site, "a")
    site.set_capacity(TYPE, 0)
    assert running(site.provider, launched).status is InstanceStatus.RUNNING
    assert refusal(site, "b").kind is ErrorKind.CAPACITY


@pytest.mark.parametrize("token", ["../../escape", "a/b", "x" * 64, "\u00e4 ;rm", "a*", "=3D~%"])
def test_no_token_steers_anything(site: Site, token: str) -> None:
    instance = launch(site, token)
    assert "/" not in instance.provider_id
    found = site.provider.find(token)
    assert found is not None
    assert found.token == token


def test_a_token_is_not_found_by_another_that_looks_like_a_pattern_of_it(site: Site) -> None:
    launch(site, "abc")
    assert site.provider.find("a*") is None
    assert site.provider.find("ab?") is None


def test_threads_that_launch_one_token_at_once_get_one_instance(site: Site) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = {each.provider_id for each in pool.map(lambda _: launch(site, "t"), range(6))}
    assert len(found) == 1


def test_processes_that_launch_at_once_never_exceed_the_slots(site: Site) -> None:
    site.set_capacity(TYPE, 3)
    outcomes = launch_in_processes(site, [[f"{process}-{number}" for number in range(3)] for process in range(3)])
    assert outcomes.count("capacity") == 6
    listed = {each.provider_id for each in site.provider.list_owned("us")}
    assert {each for each in outcomes if each != "capacity"} == listed
    assert len(listed) == 3


def test_processes_that_launch_one_token_at_once_get_one_instance(site: Site) -> None:
    found = launch_in_processes(site, [["t", "t"], ["t", "t"], ["t", "t"]])
    assert len(found) == 6
    assert found == [launch(site, "t").provider_id] * 6


def test_another_process_can_find_and_end_what_this_one_launched(site: Site) -> None:
    launched = launch(site, "t")
    other = site.another()
    found = other.provider.find("t")
    assert found is not None
    assert found.provider_id == launched.provider_id
    end(other, found)
    assert site.provider.find("t") is None
    other.close()


@pytest.mark.django_db
def test_nothing_is_asked_inside_a_transaction(site: Site) -> None:
    instance = launch(site, "t")
    provider = site.provider
    with transaction.atomic():
        for call in (
            lambda: launch(site, "another"),
            lambda: provider.find("t"),
            lambda: provider.describe([instance.provider_id]),
            lambda: provider.terminate(instance.provider_id),
            lambda: provider.list_owned(instance.owner),
            lambda: provider.ping(instance, 1.0),
        ):
            with pytest.raises(CalledInsideTransaction):
                call()
    assert [each.token for each in provider.list_owned(instance.owner)] == ["t"]
    assert provider.describe([instance.provider_id])[instance.provider_id].status in ("pending", "running")
