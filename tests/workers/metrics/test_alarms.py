"""Alarms as the scheduler evaluates them: on time, on real rows, and never over a caller's head."""

from typing import Any

import pytest
from django.db import connection

from controlplane.metrics import services, store
from controlplane.metrics.evaluate import ALARM, OK, Verdict
from controlplane.metrics.models import MetricAlarm
from controlplane.metrics.selectors import alarm_states
from controlplane.metrics.series import MetricSetKey, bucket_start
from controlplane.metrics.statistics import Aggregate
from controlplane.observability.models import Event
from tests.fakes.clock import START, FakeClock
from workers.metrics import alarms

ACCOUNT = "123456789012"
LOOK_SECONDS = 2.0
KEY = MetricSetKey(ACCOUNT, "AWS/SageMaker", {"EndpointName": "e", "VariantName": "v"})

pytestmark = pytest.mark.django_db


def put(name: str = "errors", **changes: Any) -> None:
    """An alarm on the rate of errors of ten seconds."""
    request = {
        "AlarmName": name,
        "Namespace": KEY.namespace,
        "MetricName": "Invocation5XXErrors",
        "Dimensions": [{"Name": each, "Value": value} for each, value in KEY.dimensions.items()],
        "Statistic": "Average",
        "Period": 10,
        "EvaluationPeriods": 1,
        "Threshold": 0.5,
        "ComparisonOperator": "GreaterThanThreshold",
        **changes,
    }
    if "ExtendedStatistic" in changes:
        del request["Statistic"]
    services.put_alarm(ACCOUNT, request, now=START)


def count(clock: FakeClock, errors: int, calls: int, source: str = "gateway") -> None:
    """Let a gateway have counted so many calls in the bucket of this moment, so many of them in error."""
    aggregate = Aggregate.of(pair for pair in ((1, errors), (0, calls - errors)) if pair[1])
    metrics = {"Invocation5XXErrors": {"None": aggregate}}
    with connection.cursor() as cursor:
        bucket = store.Bucket(KEY, bucket_start(clock.now().timestamp()), source, metrics)
        cursor.execute(store.WRITE, [store.rows([bucket])])


def states(*names: str) -> list[str]:
    """What the alarms say."""
    found = alarm_states(ACCOUNT, names)
    return [found[name].state for name in names]


def test_errors_ring_within_seconds_of_their_bucket_and_good_calls_end_it(fake_clock: FakeClock) -> None:
    put()
    seen: list[str] = []
    for errors in (0, 8, 8, 0):
        count(fake_clock, errors, 10)
        for _ in range(int(10 / LOOK_SECONDS)):
            fake_clock.step(LOOK_SECONDS)
            alarms.evaluate_due(fake_clock.now())
            if not seen or states("errors") != seen[-1:]:
                seen += states("errors")
    fake_clock.step(4)
    alarms.evaluate_due(fake_clock.now())
    assert [*seen, *states("errors")] == ["INSUFFICIENT_DATA", "OK", "ALARM", "OK"]
    told = Event.objects.filter(subject_kind="alarm").order_by("id").values_list("sentence", flat=True)
    assert [sentence.partition(":")[0] for sentence in told] == [
        "Alarm errors went from INSUFFICIENT_DATA to OK",
        "Alarm errors went from OK to ALARM",
        "Alarm errors went from ALARM to OK",
    ]
    assert "1 out of the last 1 datapoint [0.8] was greater than the threshold (0.5)" in told[1]


def test_sources_add_up_before_the_threshold_is_asked(fake_clock: FakeClock) -> None:
    put()
    count(fake_clock, 10, 10, "one")
    count(fake_clock, 0, 90, "two")
    fake_clock.step(12)
    alarms.evaluate_due(fake_clock.now())
    assert states("errors") == [OK]


def test_a_percentile_alarm_and_a_minute_alarm(fake_clock: FakeClock) -> None:
    put("p50", ExtendedStatistic="p50")
    put("minute", Period=60, Statistic="Sum", Threshold=29)
    for _ in range(6):
        count(fake_clock, 6, 10)
        fake_clock.step(10)
    fake_clock.step(2)
    assert alarms.evaluate_due(fake_clock.now()) == 2
    assert states("p50", "minute") == [ALARM, ALARM]
    assert "[36] was greater" in alarm_states(ACCOUNT, ["minute"])["minute"].reason


def test_an_alarm_is_not_looked_at_before_it_is_due(fake_clock: FakeClock) -> None:
    put()
    fake_clock.step(12)
    alarms.evaluate_due(fake_clock.now())
    count(fake_clock, 10, 10)
    (row,) = MetricAlarm.objects.all()
    assert fake_clock.now() < row.due_at
    fake_clock.step((row.due_at - fake_clock.now()).total_seconds() - 0.001)
    assert alarms.evaluate_due(fake_clock.now()) == 0
    fake_clock.step(0.001)
    assert alarms.evaluate_due(fake_clock.now()) == 1


def test_a_state_that_was_set_stays_until_the_next_evaluation_finds_otherwise(fake_clock: FakeClock) -> None:
    put()
    count(fake_clock, 0, 10)
    fake_clock.step(12)
    alarms.evaluate_due(fake_clock.now())
    wish = {"AlarmName": "errors", "StateValue": "ALARM", "StateReason": "rehearsal"}
    services.set_alarm_state(ACCOUNT, wish, now=fake_clock.now())
    fake_clock.step(2)
    alarms.evaluate_due(fake_clock.now())
    assert states("errors") == [ALARM]
    count(fake_clock, 0, 10)
    fake_clock.step(10)
    alarms.evaluate_due(fake_clock.now())
    assert states("errors") == [OK]


def test_what_a_caller_changed_while_it_was_evaluated_stays(fake_clock: FakeClock) -> None:
    put()
    (before,) = MetricAlarm.objects.all()
    wish = {"AlarmName": "errors", "StateValue": "ALARM", "StateReason": "rehearsal"}
    services.set_alarm_state(ACCOUNT, wish, now=fake_clock.now())
    assert not services.apply_verdict(before, Verdict(OK, "stale", ()), before.due_at, now=fake_clock.now())
    put(Threshold=0.9)
    (row,) = MetricAlarm.objects.all()
    assert (row.state, row.revision) == (ALARM, before.revision + 2)


def test_two_schedulers_tell_of_a_change_once(fake_clock: FakeClock) -> None:
    put()
    count(fake_clock, 10, 10)
    fake_clock.step(12)
    (seen_by_both,) = MetricAlarm.objects.all()
    alarms.evaluate_due(fake_clock.now())
    services.apply_verdict(seen_by_both, Verdict(ALARM, "as well", ()), seen_by_both.due_at, now=fake_clock.now())
    assert Event.objects.filter(reason="AlarmStateChanged").count() == 1


def test_many_alarms_cost_one_reading_and_one_postponing(fake_clock: FakeClock, django_assert_num_queries: Any) -> None:
    for number in range(30):
        put(f"alarm-{number}")
    fake_clock.step(12)
    with django_assert_num_queries(3):
        alarms.evaluate_due(fake_clock.now())
    assert not MetricAlarm.objects.filter(due_at__lte=fake_clock.now()).exists()


def test_an_alarm_that_cannot_be_evaluated_holds_up_no_other(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    put("broken")
    put("sound")
    MetricAlarm.objects.filter(name="broken").update(request={"MetricName": "m"})
    count(fake_clock, 10, 10)
    fake_clock.step(12)
    assert alarms.evaluate_due(fake_clock.now()) == 1
    assert states("broken", "sound") == ["INSUFFICIENT_DATA", ALARM]
    assert "broken" in caplog.text
    assert not MetricAlarm.objects.filter(due_at__lte=fake_clock.now()).exists()
