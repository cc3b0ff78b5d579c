"""What operators write: capacities, runtimes and the provider's name."""

import json
import sys
from pathlib import Path

import pytest

from workers.providers import registry
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.local.capacity import DEFAULT_SLOTS
from workers.providers.local.provider import LocalProvider
from workers.providers.local.runtimes import BUILT_IN, command_for, read_runtimes
from workers.providers.simulated.provider import ZONE, SimulatedProvider
from workers.providers.slots import read_slots

NO_SLOTS = ["[]", "1", "null", '"x"', '{"a": -1}', '{"a": 1.5}', '{"a": "1"}', '{"a": true}', "{", '{"a": null}']


@pytest.mark.parametrize("text", NO_SLOTS)
def test_a_capacity_that_makes_no_sense_is_refused_by_the_settings_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"^SETTING must be a JSON object"):
        read_slots(text, "SETTING")


def test_every_type_has_some_slots_where_nothing_is_set(tmp_path: Path) -> None:
    assert LocalProvider(tmp_path, {}).capacity("ml.m5.large") == DEFAULT_SLOTS


def test_types_that_the_setting_does_not_name_have_none(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path, {"HEADRACE_LOCAL_CAPACITY": '{"ml.a": 2}'})
    assert [provider.capacity(name) for name in ("ml.a", "ml.b")] == [2, 0]


def test_what_the_operator_sets_last_wins_in_every_process(tmp_path: Path) -> None:
    env = {"HEADRACE_LOCAL_CAPACITY": '{"ml.a": 2}'}
    LocalProvider(tmp_path, env).set_capacity("ml.a", 0)
    LocalProvider(tmp_path, env).set_capacity("ml.b", 5)
    other = LocalProvider(tmp_path, env)
    assert [other.capacity(name) for name in ("ml.a", "ml.b")] == [0, 5]


def test_a_negative_capacity_is_refused(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path, {})
    with pytest.raises(ValueError, match="0 or more"):
        provider.set_capacity("ml.a", -1)
    assert provider.capacity("ml.a") == DEFAULT_SLOTS


def test_the_operators_runtimes_add_to_the_built_in_ones() -> None:
    runtimes = read_runtimes({"HEADRACE_RUNTIMES": json.dumps({"my/image": ["serve", "{port}"]})})
    assert command_for(runtimes, "my/image") == ["serve", "{port}"]
    assert command_for(runtimes, "headrace/reference:latest") == BUILT_IN["headrace/reference"]
    assert command_for(runtimes, "headrace/reference")[0] == sys.executable


@pytest.mark.parametrize("text", ["[]", "{", '{"a": []}', '{"a": "serve"}', '{"a": [1]}'])
def test_runtimes_that_make_no_sense_are_refused_by_the_settings_name(text: str) -> None:
    with pytest.raises(ValueError, match="HEADRACE_RUNTIMES"):
        read_runtimes({"HEADRACE_RUNTIMES": text})


def test_an_unknown_image_is_a_misconfiguration_that_names_image_and_setting() -> None:
    with pytest.raises(ProviderError, match=r"'who/knows:1'.*HEADRACE_RUNTIMES") as caught:
        command_for(BUILT_IN, "who/knows:1")
    assert caught.value.kind is ErrorKind.MISCONFIGURED


def test_an_unknown_provider_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(KeyError, match="local, simulated"):
        registry.get("cloud")


def test_a_process_has_one_provider_of_a_name() -> None:
    assert registry.get("local") is registry.get("local")


def test_the_simulated_zones_are_a_setting(tmp_path: Path) -> None:
    env = {"HEADRACE_SIMULATED_ZONES": " a, b,, "}
    provider = SimulatedProvider.stored(tmp_path, env)
    assert provider.zones == ("a", "b")
    provider.world.close()
    provider = SimulatedProvider.stored(tmp_path, {})
    assert provider.zones == (ZONE,)
    provider.world.close()
