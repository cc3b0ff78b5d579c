"""What a simulation adds up to: instance-time, calls and money by group, and the changes that a picture is drawn from.

Time is weighed as it passes: whoever changes a fact first has the time since the last change booked under the old one.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from datetime import datetime

from controlplane.core.offerings import Mark
from workers.simulator.fleet import Machine, Subject
from workers.simulator.scenario import HOUR, Group
from workers.simulator.weather import Key
from workers.simulator.world import Answer


@dataclass
class Tally:
    """The sums of one group; `wanted`, `served`, `serving` and `preferred` are instance-seconds."""

    wanted_seconds: float = 0.0
    served_seconds: float = 0.0
    counted_seconds: float = 0.0
    up_seconds: float = 0.0
    preferred_seconds: float = 0.0
    serving_by_type: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    spend_by_type: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[Answer] = field(default_factory=Counter)
    refused_in_spite_of_mark: int = 0
    moves: int = 0
    moves_undone: int = 0
    interruptions: int = 0
    survived: int = 0
    failed: int = 0
    rolled_back: int = 0
    crashes: int = 0
    in_service_seconds: list[float] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take another group's sums in."""
        for each in fields(Tally):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(theirs, dict):
                for kind, amount in theirs.items():
                    mine[kind] += amount
            else:
                setattr(self, each.name, mine + theirs)


@dataclass(eq=False, slots=True)
class _Account:
    """One endpoint since its last change. Until it is first in service its time waits in `kept`."""

    since: float
    wanted: int
    serving: int = 0
    by_type: dict[str, int] = field(default_factory=dict)
    is_counted: bool = False
    kept_seconds: float = 0.0
    kept_wanted: float = 0.0


@dataclass(frozen=True)
class Spell:
    """A mark on `key` from `start` to `end`, seconds from the scenario's start."""

    key: Key
    start: float
    end: float


class Ledger:
    """Books what happens; times are datetimes at its edges and seconds from `start` inside."""

    def __init__(self, groups: tuple[Group, ...], start: datetime) -> None:
        self._start = start
        self._preferred = {group.name: group.preferred for group in groups}
        self._accounts: dict[str, _Account] = {}
        self._open_marks: dict[Key, tuple[float, float]] = {}
        self.tallies = {group.name: Tally() for group in groups}
        self.endpoints: Counter[str] = Counter()
        self.wanted_changes: list[tuple[float, int]] = []
        self.serving_changes: list[tuple[float, str, int]] = []
        self.calls: list[tuple[float, Key, Answer]] = []
        self.marks: list[Spell] = []

    def created(self, subject: Subject, now: datetime) -> None:
        """A new endpoint is wanted."""
        at = self._seconds(now)
        self._accounts[subject.name] = _Account(at, subject.wanted)
        self.endpoints[subject.group.name] += 1
        self.wanted_changes.append((at, subject.wanted))

    def wants(self, subject: Subject, now: datetime) -> None:
        """Its user wants another number of instances."""
        account = self._settle(subject, now)
        self.wanted_changes.append((account.since, subject.wanted - account.wanted))
        account.wanted = subject.wanted

    def serves(self, subject: Subject, machine: Machine, *, is_serving: bool, now: datetime) -> None:
        """An instance begins or ceases to answer calls; repeating it changes nothing."""
        if machine.is_serving == is_serving:
            return
        account = self._settle(subject, now)
        machine.is_serving = is_serving
        kind, change = machine.key[0], 1 if is_serving else -1
        account.serving += change
        account.by_type[kind] = account.by_type.get(kind, 0) + change
        self.serving_changes.append((account.since, kind, change))

    def entered_service(self, subject: Subject, now: datetime) -> None:
        """For the first time: availability is counted from here."""
        account = self._settle(subject, now)
        account.is_counted = True
        self.tallies[subject.group.name].in_service_seconds.append((now - subject.created_at).total_seconds())

    def failed(self, subject: Subject, now: datetime) -> None:
        """Its creation failed: it is counted as wanted and not there from its creation on."""
        self.tallies[subject.group.name].failed += 1
        self._count_from_creation(subject, self._settle(subject, now))

    def called(self, subject: Subject, key: Key, answer: Answer, *, is_marked: bool, now: datetime) -> None:
        """A launch call was answered; `is_marked` when a mark held as it was made."""
        tally = self.tallies[subject.group.name]
        tally.calls[answer] += 1
        tally.refused_in_spite_of_mark += is_marked and answer is Answer.REFUSED
        self.calls.append((self._seconds(now), key, answer))

    def ended(self, subject: Subject, machine: Machine, now: datetime) -> None:
        """An instance is gone: it has cost its price from its launch to now."""
        hours = (now - machine.fate.launched_at).total_seconds() / HOUR
        self.tallies[subject.group.name].spend_by_type[machine.key[0]] += hours * machine.row.hourly_price

    def marked(self, key: Key, mark: Mark | None, now: datetime) -> None:
        """What is remembered of a key changed. A mark that is lengthened while it holds goes on as one spell."""
        at = self._seconds(now)
        until = self._seconds(mark.until) if mark is not None else at
        start, end = self._open_marks.pop(key, (at, at))
        if until > at and end >= at:
            self._open_marks[key] = (start, until)
            return
        if start < min(end, at):
            self.marks.append(Spell(key, start, min(end, at)))
        if until > at:
            self._open_marks[key] = (at, until)

    def close(self, subjects: dict[str, Subject], now: datetime) -> None:
        """The scenario's end: book what still runs."""
        for subject in subjects.values():
            account = self._settle(subject, now)
            self._count_from_creation(subject, account)
            for machine in subject.machines.values():
                if not machine.is_gone:
                    self.ended(subject, machine, now)
        for key in sorted(self._open_marks):
            self.marked(key, None, now)

    def _settle(self, subject: Subject, now: datetime) -> _Account:
        account = self._accounts[subject.name]
        at = self._seconds(now)
        seconds, account.since = at - account.since, at
        if not seconds:
            return account
        tally = self.tallies[subject.group.name]
        for kind, count in account.by_type.items():
            if count:
                tally.serving_by_type[kind] += count * seconds
                tally.preferred_seconds += count * seconds if kind == self._preferred[subject.group.name] else 0.0
        if not account.is_counted:
            account.kept_seconds += seconds
            account.kept_wanted += account.wanted * seconds
            return account
        tally.counted_seconds += seconds
        tally.wanted_seconds += account.wanted * seconds
        tally.served_seconds += min(account.serving, account.wanted) * seconds
        tally.up_seconds += seconds if account.serving else 0.0
        return account

    def _count_from_creation(self, subject: Subject, account: _Account) -> None:
        """Never in service: the time it was wanted counts as time without."""
        if account.is_counted:
            return
        tally = self.tallies[subject.group.name]
        tally.counted_seconds += account.kept_seconds
        tally.wanted_seconds += account.kept_wanted
        account.is_counted, account.kept_seconds, account.kept_wanted = True, 0.0, 0.0

    def _seconds(self, at: datetime) -> float:
        return (at - self._start).total_seconds()
