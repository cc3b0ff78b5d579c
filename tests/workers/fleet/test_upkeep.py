"""Looking after one instance: each stage has its own clock and its own words."""

from dataclasses import replace

import pytest

from tests.workers.fleet.worlds import NOW, ago, instance, variant
from workers.fleet import actions as do
from workers.fleet.upkeep import (
    BOOT_TIMEOUT_SECONDS,
    DRAIN_TIMEOUT_SECONDS,
    FAILED_PINGS_LIMIT,
    TERMINATE_AGAIN_LAST_SECONDS,
    TERMINATE_AGAIN_SECONDS,
    action_for,
)
from workers.fleet.view import Instance, Sighting, Stage

VARIANT = variant(1, startup_timeout_seconds=60.0, download_timeout_seconds=100.0)


def told(row: Instance) -> do.Action | None:
    """What is to be done about this instance."""
    return action_for(VARIANT, row, NOW)


def exited(**facts: str) -> Instance:
    """An instance that ended before it was ready."""
    return replace(instance(stage=Stage.STARTING, sighting=Sighting.EXITED), **facts)


def failure_of(row: Instance) -> do.StartFailure | None:
    """The start failure that ending this instance counts."""
    action = told(row)
    assert isinstance(action, do.Terminate | do.ForgetInstance)
    return action.start_failure


def test_a_running_instance_is_asked_for_its_ping_and_then_serves() -> None:
    assert isinstance(told(instance(stage=Stage.PENDING, is_healthy=False)), do.MarkStarting)
    assert isinstance(told(instance(stage=Stage.STARTING, is_healthy=True)), do.MarkReady)


def test_an_instance_that_answers_at_once_skips_a_stage() -> None:
    action = told(instance("abcdefghij", Stage.PENDING, age=2.5, is_healthy=True))
    assert isinstance(action, do.MarkReady)
    assert action.why == "ml.t0.large abcdefgh serves, 2.5 s after its launch"


@pytest.mark.parametrize("sighting", [Sighting.PENDING, Sighting.UNKNOWN])
def test_a_boot_may_take_its_time_and_the_download_s(sighting: Sighting) -> None:
    limit = BOOT_TIMEOUT_SECONDS + 100
    assert told(instance(stage=Stage.PENDING, sighting=sighting, age=limit)) is None
    failure = failure_of(instance(stage=Stage.PENDING, sighting=sighting, age=limit + 1))
    assert failure is not None
    assert not failure.is_final
    assert "no address after 1000 s" in failure.reason


def test_a_model_that_is_not_up_in_its_time_is_not_tried_again() -> None:
    assert told(instance(stage=Stage.STARTING, age=60, is_healthy=False)) is None
    failure = failure_of(instance(stage=Stage.STARTING, age=61, is_healthy=False, detail="/ping answered 503"))
    assert failure is not None
    assert failure.is_final
    assert "did not pass the ping health check" in failure.reason
    assert failure.reason.endswith("Last seen: /ping answered 503.")


def test_a_machine_that_is_taken_away_before_it_serves_says_nothing_about_the_model() -> None:
    assert failure_of(exited(detail="the market takes it back")) is None


def test_a_container_that_exits_at_start_is_counted_with_its_last_words() -> None:
    failure = failure_of(exited(detail="exited with code 3: no GPU.", failure="container_exited"))
    assert failure is not None
    assert not failure.is_final
    assert failure.reason.endswith("Last seen: exited with code 3: no GPU.")


def test_model_data_that_cannot_be_had_are_final() -> None:
    facts = {"failure": "model_data", "detail": "s3://b/k: Not Found"}
    failure = failure_of(instance(stage=Stage.PENDING, sighting=Sighting.EXITED, **facts))
    assert failure is not None
    assert failure.is_final
    assert failure.reason == ("Failed to download model data for container for production variant v. s3://b/k: Not Found")


@pytest.mark.parametrize("sighting", [Sighting.EXITED, Sighting.GONE])
def test_an_instance_lost_while_serving_is_no_start_failure(sighting: Sighting) -> None:
    assert failure_of(instance(sighting=sighting)) is None
    assert failure_of(instance(stage=Stage.DRAINING, sighting=sighting)) is None


def test_an_instance_that_vanishes_before_it_served_counts() -> None:
    failure = failure_of(instance(stage=Stage.PENDING, sighting=Sighting.GONE))
    assert failure is not None
    assert "it vanished" in failure.reason


def test_a_serving_instance_is_replaced_after_pings_that_failed_in_a_row() -> None:
    for failed in range(FAILED_PINGS_LIMIT - 1):
        action = told(instance(is_healthy=False, failed_pings=failed))
        assert isinstance(action, do.NotePing)
        assert action.failed_pings == failed + 1
    last = told(instance(is_healthy=False, failed_pings=FAILED_PINGS_LIMIT - 1, detail="/ping answered 500"))
    assert isinstance(last, do.Terminate)
    assert last.start_failure is None
    assert last.why.endswith("failed /ping 3 times in a row: /ping answered 500")


def test_one_good_ping_forgives_and_no_ping_says_nothing() -> None:
    recovered = told(instance(is_healthy=True, failed_pings=2))
    assert isinstance(recovered, do.NotePing)
    assert recovered.failed_pings == 0
    assert told(instance(is_healthy=True)) is None
    assert told(instance(is_healthy=None, failed_pings=2)) is None


def test_a_drained_instance_ends_when_every_gateway_says_it_is_idle() -> None:
    assert isinstance(told(instance(stage=Stage.DRAINING, in_flight=0)), do.Terminate)
    assert told(instance(stage=Stage.DRAINING, in_flight=1)) is None
    assert told(instance(stage=Stage.DRAINING, in_flight=None)) is None


@pytest.mark.parametrize("in_flight", [None, 1])
def test_draining_ends_one_minute_after_the_longest_call(in_flight: int | None) -> None:
    assert told(instance(stage=Stage.DRAINING, age=DRAIN_TIMEOUT_SECONDS, in_flight=in_flight)) is None
    late = told(instance(stage=Stage.DRAINING, age=DRAIN_TIMEOUT_SECONDS + 1, in_flight=in_flight))
    assert isinstance(late, do.Terminate)


@pytest.mark.parametrize("sighting", [Sighting.RUNNING, Sighting.STOPPING, Sighting.EXITED, Sighting.PENDING])
def test_an_end_without_effect_is_asked_for_again(sighting: Sighting) -> None:
    recent = ago(TERMINATE_AGAIN_SECONDS - 1)
    assert told(instance(stage=Stage.TERMINATING, sighting=sighting, terminate_asked_at=recent)) is None
    asked = ago(TERMINATE_AGAIN_SECONDS)
    again = told(instance(stage=Stage.TERMINATING, sighting=sighting, terminate_asked_at=asked))
    assert isinstance(again, do.Terminate)
    assert "again" in again.why


@pytest.mark.parametrize(("age", "wait"), [(60, 30), (600, 60), (2000, 200), (99_999, 300)])
def test_an_end_that_takes_long_is_asked_for_less_often_but_without_end(age: float, wait: float) -> None:
    facts = {"stage": Stage.TERMINATING, "sighting": Sighting.RUNNING, "age": age}
    assert told(instance(**facts, terminate_asked_at=ago(wait - 1))) is None
    assert isinstance(told(instance(**facts, terminate_asked_at=ago(wait))), do.Terminate)


def test_an_end_is_not_asked_for_often_while_the_provider_says_nothing() -> None:
    facts = {"stage": Stage.TERMINATING, "sighting": Sighting.UNKNOWN}
    assert told(instance(**facts, terminate_asked_at=ago(TERMINATE_AGAIN_LAST_SECONDS - 1))) is None
    assert isinstance(told(instance(**facts, terminate_asked_at=ago(TERMINATE_AGAIN_LAST_SECONDS))), do.Terminate)


def test_an_end_that_was_never_asked_for_is_asked_for_at_once() -> None:
    row = instance(stage=Stage.TERMINATING, sighting=Sighting.UNKNOWN, terminate_asked_at=None)
    assert isinstance(told(row), do.Terminate)


def test_an_instance_is_forgotten_only_when_its_provider_says_it_is_gone() -> None:
    asked = ago(9999)
    unknown = instance(stage=Stage.TERMINATING, sighting=Sighting.UNKNOWN, terminate_asked_at=asked)
    assert isinstance(told(unknown), do.Terminate), "asked again, since nobody says whether it still lives"
    gone = told(instance(stage=Stage.TERMINATING, sighting=Sighting.GONE, terminate_asked_at=asked))
    assert isinstance(gone, do.ForgetInstance)
    assert gone.start_failure is None
