"""What is wrong is said in a sentence, with what to do about it, the worst first."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.console.facts import (
    Alarm,
    Backlog,
    Backlogs,
    Closed,
    EndpointFact,
    Facts,
    Letters,
    Orphans,
    Overdue,
    Process,
    Shortage,
)
from controlplane.console.problem import Problem, Severity
from controlplane.console.problems import problems
from tests.fakes.clock import START

ALIVE = tuple(Process(role, f"{role}-1", START) for role in ("scheduler", "worker", "gateway"))
QUIET = Facts(processes=ALIVE)
OLD = START - timedelta(hours=1)


def told(facts: Facts) -> list[Problem]:
    """The problems at START."""
    return list(problems(facts, START))


def fact(phase: str, *, since: object = OLD, why: str = "", reason: str = "", is_refused: bool = False) -> EndpointFact:
    """An endpoint `chat` in a phase."""
    return EndpointFact("123456789012", "chat", phase, why, reason, since, is_refused)  # type: ignore[arg-type]


def test_nothing_is_wrong_when_all_is_well() -> None:
    assert told(QUIET) == []
    assert told(replace(QUIET, orphans=Orphans(0, 0.0, 0, 0, None))) == []


@pytest.mark.parametrize("role", ["scheduler", "worker", "gateway"])
def test_a_role_that_nobody_has_comes_first(role: str) -> None:
    left = tuple(each for each in ALIVE if each.role != role)
    facts = replace(QUIET, processes=left, endpoints=(fact("InService", reason="No capacity."),))
    first = told(facts)[0]
    assert (first.severity, first.sentence) == (Severity.BAD, f"No {role} is alive: the last one has never been heard of.")
    assert first.advice


def test_a_process_that_fell_silent_is_told_only_where_it_was_the_last() -> None:
    silent = Process("worker", "worker-2", START - timedelta(minutes=4))
    assert told(replace(QUIET, processes=(*ALIVE, silent))) == []
    only = tuple(each for each in ALIVE if each.role != "worker")
    assert "was last heard of 4 min ago" in told(replace(QUIET, processes=(*only, silent)))[0].sentence


def test_a_gateway_with_an_old_table_is_told_although_it_is_alive() -> None:
    old = Process("gateway", "g-2", START, table_age_seconds=90)
    (problem,) = told(replace(QUIET, processes=(*ALIVE, old)))
    assert problem.sentence == "Gateway g-2 serves from a routing table that is 1 min old."


@pytest.mark.parametrize(
    ("endpoint", "severity", "sentence"),
    [
        (fact("Failed", reason="No capacity."), Severity.BAD, "chat failed to be created: No capacity."),
        (fact("UpdateRollbackFailed"), Severity.BAD, "chat could neither be updated nor go back."),
        (fact("InService", reason="It did not start"), Severity.WARN, "The last change of chat failed: It did not start."),
        (fact("Creating", why="Waits."), Severity.BAD, "chat has been creating for 1 h: Waits."),
        (
            fact("Creating", since=START, is_refused=True, why="All marked"),
            Severity.WARN,
            "chat waits for capacity: All marked.",
        ),
        (fact("Deleting"), Severity.WARN, "chat has been deleting for 1 h."),
        (fact("RollingBack"), Severity.WARN, "chat has been rolling back for 1 h."),
    ],
    ids=lambda value: value.phase if isinstance(value, EndpointFact) else None,
)
def test_an_endpoint_in_trouble(endpoint: EndpointFact, severity: Severity, sentence: str) -> None:
    (problem,) = told(replace(QUIET, endpoints=(endpoint,)))
    assert (problem.severity, problem.sentence) == (severity, sentence)
    assert (problem.page, problem.account_id, problem.name) == ("endpoint", "123456789012", "chat")


@pytest.mark.parametrize("phase", ["Creating", "Updating", "RollingBack", "Deleting"])
def test_a_change_that_has_just_begun_is_no_problem(phase: str) -> None:
    assert told(replace(QUIET, endpoints=(fact(phase, since=START - timedelta(minutes=14)),))) == []


def test_a_shortage_is_worse_when_nobody_is_served() -> None:
    some = Shortage("1", "chat", "main", 1, 3, "Asks again at 12:00.", OLD, is_closed=False)
    none = replace(some, endpoint="embed", current=0, is_closed=True)
    first, second = told(replace(QUIET, shortages=(some, none)))
    assert (first.severity, first.sentence) == (Severity.BAD, "embed (main) serves nobody: Asks again at 12:00.")
    assert second.sentence == "chat (main) serves with 1 of 3 instances: Asks again at 12:00."
    assert "marked" in first.advice
    assert "marked" not in second.advice


def test_types_that_are_all_marked_are_told_before_anybody_misses_them() -> None:
    (problem,) = told(replace(QUIET, closed=Closed(3, "1", "chat", ("ml.g5.xlarge", "ml.g6.xlarge"))))
    assert problem.sentence == (
        "3 variants, chat among them, could not replace an instance now: "
        "every type in question is marked (ml.g5.xlarge, ml.g6.xlarge)."
    )
    assert problem.page == "capacity"


def test_what_waits_too_long_or_for_nothing() -> None:
    lines = (
        Backlog("1", "fine", 5, 30.0, False),
        Backlog("1", "old", 1200, 700.0, False),
        Backlog("1", "none", 1, 5.0, True),
    )
    assert [each.sentence for each in told(replace(QUIET, backlogs=Backlogs(lines, START)))] == [
        "1,200 requests wait at old, the oldest for 11 min.",
        "1 request waits at none, which has no instance.",
    ]


def test_failed_requests_lead_to_their_class() -> None:
    (problem,) = told(replace(QUIET, letters=(Letters("1", "chat", "no_answer", 10_000, is_floor=True),)))
    assert problem.sentence == "More than 10,000 requests of chat failed within the last hour (no answer)."
    assert (problem.page, problem.name) == ("requests", "chat")


def test_what_only_costs_money_is_told_with_its_price() -> None:
    facts = replace(
        QUIET,
        overdue=Overdue(2, "i-1", "ml.p5.48xlarge", OLD, 110.08),
        orphans=Orphans(1, 1.212, 0, 0, OLD),
    )
    overdue, orphan = told(facts)
    assert (
        overdue.sentence
        == "2 instances should have ended by now (i-1 first, a ml.p5.48xlarge) and go on costing $110.08 an hour."
    )
    assert orphan.sentence == "1 instance runs and no endpoint has it: $1.21 an hour."
    assert orphan.severity is Severity.WARN


def test_a_sweep_that_is_held_back_says_why() -> None:
    (problem,) = told(replace(QUIET, orphans=Orphans(2, 3.0, 1, 0, OLD, OLD, "the database is older than 2 instances")))
    assert problem.severity is Severity.BAD
    assert problem.sentence.endswith(
        "2 orphans, $3.00 and 1 unknown price an hour: the database is older than 2 instances."
    )


def test_alarms_and_workers_that_do_not_keep_up() -> None:
    facts = replace(QUIET, alarms=(Alarm("1", "slow", "Threshold crossed", OLD),), behind=40, behind_since=OLD)
    behind, alarm = told(facts)
    assert behind.sentence == "40 endpoints should have been looked at by now, the first 1 h ago."
    assert alarm.sentence == "Alarm slow is in ALARM: Threshold crossed."
    assert told(replace(QUIET, behind=40, behind_since=START - timedelta(seconds=40))) == []


def test_what_is_not_listed_is_counted() -> None:
    facts = replace(QUIET, more_endpoints=1200, more_alarms=1)
    assert [each.sentence for each in told(facts)] == [
        "1,200 more endpoints are in trouble.",
        "1 more alarm is in trouble.",
    ]
