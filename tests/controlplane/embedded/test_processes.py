"""What `manage.py up` runs beside the engines."""

from pathlib import Path

import pytest

from controlplane.core.gateways import DRAIN_SECONDS
from controlplane.embedded.child import Spec
from controlplane.embedded.processes import specs


def gateways(**env: str) -> list[Spec]:
    """The gateways that this environment asks for."""
    made = specs(env, Path("/data"), {"api": 8001, "gateway": 8000})
    return [spec for spec in made if spec.argv[-1] == "controlplane.gateway"]


def test_there_is_one_gateway_unless_more_are_asked_for() -> None:
    assert [spec.name for spec in gateways()] == ["gateway"]


def test_gateways_differ_in_name_and_log_only() -> None:
    several = gateways(HEADRACE_GATEWAYS="3")
    assert [spec.name for spec in several] == ["gateway", "gateway-2", "gateway-3"]
    assert [spec.log.name for spec in several] == ["gateway.log", "gateway-2.log", "gateway-3.log"]
    assert {tuple(spec.argv) for spec in several} == {tuple(several[0].argv)}
    assert all(spec.env["HEADRACE_GATEWAYS"] == "3" for spec in several)


@pytest.mark.parametrize(("env", "drain"), [({}, DRAIN_SECONDS), ({"HEADRACE_DRAIN_SECONDS": "90"}, 90)])
def test_a_gateway_is_given_longer_to_stop_than_it_drains(env: dict[str, str], drain: int) -> None:
    (gateway,) = gateways(**env)
    assert gateway.stop_seconds > drain
