"""A launch whose reply is lost and whose repeat is refused: what was refused is the repeat, not the launch."""

from collections.abc import Callable

import pytest

from controlplane.fleet.models import LaunchAttempt
from controlplane.fleet.states import OPEN_ATTEMPTS
from controlplane.observability.models import Event
from tests.crash.conftest import MakeRig
from tests.crash.rig import Rig
from tests.crash.sites import SimulatedSite
from workers.providers.errors import ErrorKind, ProviderError

LAG_SECONDS = 20.0

SAY_NOTHING = [ErrorKind.THROTTLED, ErrorKind.MISCONFIGURED, ErrorKind.AMBIGUOUS]
"""Kinds of refusal that may come before a provider has looked at the token."""


class Line:
    """The line to the provider: replies and requests of launch calls get lost on it by their number, from 1."""

    def __init__(self, lost_replies: set[int], refused: dict[int, ErrorKind]) -> None:
        self._lost_replies = lost_replies
        self._refused = refused
        self.calls = 0

    def __call__(self, boundary: str) -> None:
        if boundary == "before launch":
            self.calls += 1
            if kind := self._refused.get(self.calls):
                raise ProviderError(kind, "Not now.")
        if boundary == "after launch" and self.calls in self._lost_replies:
            raise ProviderError(ErrorKind.AMBIGUOUS, "The connection was lost.")


def _create(rig: Rig, line: Callable[[str], None], seconds: float = 120.0) -> None:
    rig.configure("e")
    with rig.process(line):
        rig.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
        rig.run(rig.is_quiet, seconds)


@pytest.mark.parametrize("kind", SAY_NOTHING)
def test_a_refused_repeat_does_not_disown_the_instance(make_rig: MakeRig, kind: ErrorKind) -> None:
    rig = make_rig(SimulatedSite())
    _create(rig, Line({1}, {2: kind, 3: kind}))
    assert rig.ledger.disagreement() == ""
    assert rig.ledger.launched() == 1, "what had been launched was adopted, nothing was launched beside it"
    assert rig.swept == []
    assert rig.status() == "InService"


@pytest.mark.parametrize("kind", [*SAY_NOTHING, ErrorKind.CAPACITY, ErrorKind.QUOTA])
def test_a_refused_repeat_of_a_lost_request_does_not_hold_up_the_launch(make_rig: MakeRig, kind: ErrorKind) -> None:
    rig = make_rig(SimulatedSite())
    _create(rig, Line(set(), {1: ErrorKind.AMBIGUOUS, 2: kind}))
    assert rig.ledger.disagreement() == ""
    assert rig.ledger.launched() == 1
    assert not LaunchAttempt.objects.filter(stage__in=OPEN_ATTEMPTS).exists()


def test_an_image_that_is_found_unknown_after_a_lost_request_fails_the_creation(make_rig: MakeRig) -> None:
    site = SimulatedSite()
    rig = make_rig(site)
    site.world.set_knob("consistency_seconds", 20)
    _create(rig, Line(set(), {1: ErrorKind.AMBIGUOUS, **dict.fromkeys(range(2, 1000), ErrorKind.MISCONFIGURED)}))
    assert rig.status() == "Failed"


def test_a_repeat_with_a_lost_reply_is_waited_for_after_the_last_call_not_the_first(make_rig: MakeRig) -> None:
    """Requests get lost for longer than the listing lags; then a repeat launches, and its reply is lost too."""
    site = SimulatedSite()
    rig = make_rig(site)
    site.world.set_knob("consistency_seconds", LAG_SECONDS)
    lost = dict.fromkeys(range(1, 6), ErrorKind.AMBIGUOUS)
    rig.configure("e")
    with rig.process(Line({6}, lost)):
        rig.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
        assert rig.run(lambda: bool(rig.ledger.launched()), 300) > LAG_SECONDS
        rig.call("DeleteEndpoint", EndpointName="e")
        rig.run(lambda: not rig.exists(), 120)
    assert rig.ledger.live() == [], "the endpoint was forgotten before its instance could be seen"
    assert rig.swept == []


def test_an_hour_without_a_provider_is_told_once(make_rig: MakeRig) -> None:
    rig = make_rig(SimulatedSite())
    rig.configure("e")
    with rig.process(Line(set(), dict.fromkeys(range(1, 10_000), ErrorKind.AMBIGUOUS))):
        rig.call("CreateEndpoint", EndpointName="e", EndpointConfigName="e")
        rig.idle(200)
    assert Event.objects.filter(reason="LaunchOutcomeUnknown").count() == 1
