"""The finer points of the contract, for every provider: repeated and racing calls, several processes, strange names."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.sites import OTHER_TYPE, SITES, TYPE, Site, launch_in_processes, request_for, running
from tests.contract.waiting import wait
from workers.providers.base import InstanceStatus, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError


def launch(site: Site, token: str, **what: str) -> ProviderInstance:
    return site.provider.launch(request_for(site.provider, token, **what))


def kind_of_refusal(site: Site, token: str) -> ErrorKind:
    with pytest.raises(ProviderError) as caught:
        launch(site, token)
    return caught.value.kind


def kind_of_terminate(site: Site, provider_id: str) -> ErrorKind | None:
    try:
        site.provider.terminate(provider_id)
    except ProviderError as error:
        return error.kind
    return None


def end(site: Site, instance: ProviderInstance) -> None:
    site.provider.terminate(instance.provider_id)
    wait(lambda: not site.provider.describe([instance.provider_id]))


def test_a_known_token_is_answered_even_when_nothing_is_free(site: Site) -> None:
    site.set_capacity(TYPE, 1)
    first = launch(site, "t")
    site.set_capacity(TYPE, 0)
    assert launch(site, "t").provider_id == first.provider_id


def test_a_refused_token_can_be_launched_once_there_is_capacity(site: Site) -> None:
    site.set_capacity(TYPE, 0)
    assert kind_of_refusal(site, "t") is ErrorKind.CAPACITY
    assert launch(site, "u", instance_type=OTHER_TYPE).instance_type == OTHER_TYPE
    site.set_capacity(TYPE, 1)
    assert launch(site, "t").token == "t"


def test_find_starts_nothing(site: Site) -> None:
    assert site.provider.find("t") is None
    assert site.provider.list_owned("us") == []


def test_describe_leaves_out_what_it_does_not_know(site: Site) -> None:
    one = launch(site, "a")
    launch(site, "b")
    names = [one.provider_id, "nonsense", "../../etc/passwd", "", "local-" + "0" * 24]
    assert set(site.provider.describe(names)) == {one.provider_id}
    assert site.provider.describe([]) == {}


def test_terminate_can_be_repeated_and_ends_in_gone(site: Site) -> None:
    launched = launch(site, "t")
    site.provider.terminate(launched.provider_id)
    wait(lambda: kind_of_terminate(site, launched.provider_id) is ErrorKind.GONE)


@pytest.mark.parametrize("provider_id", ["nonsense", "", "../../etc", "local-" + "0" * 24])
def test_terminating_what_never_was_is_gone(site: Site, provider_id: str) -> None:
    assert kind_of_terminate(site, provider_id) is ErrorKind.GONE


def test_an_exited_instance_is_remembered_by_its_token_and_holds_no_slot(site: Site) -> None:
    site.set_capacity(TYPE, 1)
    launched = running(site.provider, launch(site, "t"))
    site.break_container(launched)
    seen = launch(site, "t")
    assert (seen.provider_id, seen.status) == (launched.provider_id, InstanceStatus.EXITED)
    assert (seen.failure, seen.detail, seen.address) == (StartFailure.CONTAINER_EXITED, "exited with code 1", "")
    assert not site.provider.ping(launched, 1.0).is_healthy
    assert launch(site, "u").token == "u"
    end(site, launched)


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
    other = SITES[site.name](site.data_dir)
    found = other.provider.find("t")
    assert found is not None
    assert found.provider_id == launched.provider_id
    end(other, found)
    assert site.provider.find("t") is None
    other.close()
