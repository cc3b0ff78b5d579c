"""What is wrong now, each in a sentence with what to do about it. Pure.

The order is that in which an operator on call wants them: what serves nobody before what serves too few, what serves too
few before what only costs money.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from controlplane.console.endpoint_trouble import endpoint_problem
from controlplane.console.facts import (
    Alarm,
    Backlog,
    Closed,
    Facts,
    Letters,
    Orphans,
    Overdue,
    Process,
    Shortage,
)
from controlplane.console.problem import Problem, Severity, told
from controlplane.console.words import dollars, number, span
from controlplane.core.liveness import LIVE_SECONDS
from controlplane.core.words import counted

OLD_TABLE_SECONDS = 60
"""A gateway re-reads its table every few seconds; one so old means that it cannot."""

OLD_BACKLOG_SECONDS = 600
"""Waiting this long is worth a look: models answer in seconds."""

BEHIND_SECONDS = 60
"""Endpoints are looked at within a second or two of their time."""

ROLES = {
    "scheduler": "Nothing is scaled, healed or ended before it is back. Start it: manage.py scheduler.",
    "worker": "Nothing is scaled, healed, ended or answered asynchronously before one is back. Start a worker.",
    "gateway": "Nobody can call an endpoint before one is back. Start a gateway.",
}
"""What must be alive, and what its absence means."""


def problems(facts: Facts, now: datetime) -> tuple[Problem, ...]:
    """All that is wrong, the worst first and, among equals, in the order of this file."""
    found = [
        *_processes(facts.processes, now),
        *_behind(facts, now),
        *(problem for fact in facts.endpoints if (problem := endpoint_problem(fact, now))),
        *_more(facts.more_endpoints, "endpoint", "endpoints"),
        *(_shortage(each) for each in facts.shortages),
        *(_alarm(each) for each in facts.alarms),
        *_more(facts.more_alarms, "alarm", "alarms"),
        *_backlogs(facts.backlogs.lines),
        *(_letters(each) for each in facts.letters),
        *_closed(facts.closed),
        *_overdue(facts.overdue),
        *_orphans(facts.orphans),
    ]
    return tuple(sorted(found, key=lambda problem: problem.severity))


def _processes(processes: Iterable[Process], now: datetime) -> Iterator[Problem]:
    processes = tuple(processes)
    for role, advice in ROLES.items():
        ours = [each for each in processes if each.role == role]
        if any(not _is_quiet(each, now) for each in ours):
            continue
        last = max((each.seen_at for each in ours), default=None)
        heard = f"was last heard of {span((now - last).total_seconds())} ago" if last else "has never been heard of"
        yield Problem(Severity.BAD, f"No {role} is alive: the last one {heard}.", advice, "fleet", since=last)
    for each in processes:
        if not _is_quiet(each, now) and each.table_age_seconds > OLD_TABLE_SECONDS:
            yield Problem(
                Severity.BAD,
                f"Gateway {each.id} serves from a routing table that is {span(each.table_age_seconds)} old.",
                "It goes on serving what it knows, and learns nothing new: it cannot read the database. See its log.",
                "fleet",
                since=now - timedelta(seconds=each.table_age_seconds),
            )


def _is_quiet(process: Process, now: datetime) -> bool:
    return (now - process.seen_at).total_seconds() > LIVE_SECONDS


def _behind(facts: Facts, now: datetime) -> Iterator[Problem]:
    late = (now - facts.behind_since).total_seconds() if facts.behind_since else 0.0
    if late > BEHIND_SECONDS:
        yield Problem(
            Severity.BAD,
            f"{counted(facts.behind, 'endpoint')} should have been looked at by now, the first {span(late)} ago.",
            "The workers do not keep up: see whether they are alive and the broker answers, or start more of them.",
            "fleet",
            since=facts.behind_since,
        )


def _more(count: int, noun: str, plural: str) -> Iterator[Problem]:
    if count:
        verb = "is" if count == 1 else "are"
        sentence = f"{number(count)} more {noun if count == 1 else plural} {verb} in trouble."
        yield Problem(Severity.WARN, sentence, "The list shows all of them.", f"{plural}")


def _shortage(each: Shortage) -> Problem:
    serves = f"serves with {each.current} of {counted(each.desired, 'instance')}" if each.current else "serves nobody"
    sentence = told(f"{each.endpoint} ({each.variant}) {serves}", each.why)
    advice = "Every type it may run on is marked: clear a mark, give it another type, or wait."
    if not each.is_closed:
        advice = "It is being filled up; its page shows what was asked and what comes next."
    severity = Severity.WARN if each.current else Severity.BAD
    return Problem(severity, sentence, advice, "endpoint", each.account_id, each.endpoint, each.since)


def _closed(closed: Closed | None) -> Iterator[Problem]:
    if closed is None:
        return
    types = ", ".join(closed.types[:4]) + (" and others" if len(closed.types) > 4 else "")
    whose = (
        closed.endpoint if closed.variants == 1 else f"{counted(closed.variants, 'variant')}, {closed.endpoint} among them,"
    )
    yield Problem(
        Severity.WARN,
        f"{whose} could not replace an instance now: every type in question is marked ({types}).",
        "Nothing is wrong yet. The capacity board says until when, and who saw it.",
        "capacity",
    )


def _alarm(alarm: Alarm) -> Problem:
    advice = "A deployment that names this alarm is undone by it. Nothing else follows from it here."
    sentence = told(f"Alarm {alarm.name} is in ALARM", alarm.reason)
    return Problem(Severity.WARN, sentence, advice, "alarms", alarm.account_id, alarm.name, alarm.since)


def _backlogs(lines: Iterable[Backlog]) -> Iterator[Problem]:
    for line in lines:
        if line.oldest_seconds < OLD_BACKLOG_SECONDS and not line.lacks_instances:
            continue
        waits = f"{counted(line.size, 'request')} {'waits' if line.size == 1 else 'wait'} at {line.endpoint}"
        if line.lacks_instances:
            sentence, advice = f"{waits}, which has no instance.", "Scale it, or have it woken by the tag headrace:wake."
        else:
            sentence = f"{waits}, the oldest for {span(line.oldest_seconds)}."
            advice = "Scale it out, or see on its page what its instances are doing."
        yield Problem(Severity.WARN, sentence, advice, "endpoint", line.account_id, line.endpoint)


def _letters(letters: Letters) -> Problem:
    count = f"More than {number(letters.count)} requests" if letters.is_floor else counted(letters.count, "request")
    kind = letters.kind.replace("_", " ") or "unknown"
    return Problem(
        Severity.WARN,
        f"{count} of {letters.endpoint} failed within the last hour ({kind}).",
        "Look at one of them, mend the cause, then redrive the class.",
        "requests",
        letters.account_id,
        letters.endpoint,
    )


def _overdue(overdue: Overdue | None) -> Iterator[Problem]:
    if overdue is None:
        return
    first = overdue.oldest_id if overdue.count == 1 else f"{overdue.oldest_id} first"
    goes = "goes on" if overdue.count == 1 else "go on"
    yield Problem(
        Severity.BAD,
        f"{counted(overdue.count, 'instance')} should have ended by now ({first}, a {overdue.oldest_type}) "
        f"and {goes} costing {dollars(overdue.hourly_dollars)} an hour.",
        "Its end is asked for again and again. See at the provider what keeps it, and end it there.",
        "instances",
        since=overdue.since,
    )


def _orphans(orphans: Orphans | None) -> Iterator[Problem]:
    if orphans is None:
        return
    cost = dollars(orphans.hourly_dollars) + (
        f" and {counted(orphans.unpriced, 'unknown price')}" if orphans.unpriced else ""
    )
    if orphans.held_since is not None:
        yield Problem(
            Severity.BAD,
            told(
                f"The orphan sweep is held back and ends nothing: {counted(orphans.count, 'orphan')}, {cost} an hour",
                orphans.held_why,
            ),
            "Look at them, then confirm that they are orphans.",
            "orphans",
            since=orphans.held_since,
        )
    elif orphans.count:
        severity = Severity.BAD if orphans.overdue else Severity.WARN
        runs = "instance runs" if orphans.count == 1 else "instances run"
        late = f"; {counted(orphans.overdue, 'end')} overdue" if orphans.overdue else ""
        them = "it" if orphans.count == 1 else "them"
        yield Problem(
            severity,
            f"{number(orphans.count)} {runs} and no endpoint has {them}: {cost} an hour{late}.",
            "Give each back to its endpoint, or end it.",
            "orphans",
            since=orphans.since,
        )
