"""What becomes of a plan's actions: `workers.fleet.act` and `workers.fleet.launch` restated for facts in memory.

`perform` does all but launching, which takes time and is the engine's. What an action changes here it changes there, and
in the same order; what the product only tells (events, the routing table) has no counterpart.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from controlplane.core.offerings import SPOT
from workers.fleet import actions as do
from workers.fleet.capacity import backoff_seconds
from workers.fleet.plan import START_FAILURES_LIMIT
from workers.fleet.view import Phase, Sighting, Stage
from workers.simulator.fleet import Subject
from workers.simulator.ledger import Ledger
from workers.simulator.lives import Lives
from workers.simulator.memory import Memory


class Actor:
    """Carries actions out on the facts."""

    def __init__(self, ledger: Ledger, memory: Memory, lives: Lives, hold_down_seconds: float) -> None:
        self._ledger = ledger
        self._memory = memory
        self._lives = lives
        self._hold_down = timedelta(seconds=hold_down_seconds)

    def perform(self, subject: Subject, action: do.Action, now: datetime) -> None:
        """Do one action."""
        _PERFORM[type(action)](self, subject, action, now)

    def pause(self, subject: Subject, now: datetime) -> None:
        """Put the next launch off after one more failure in a row."""
        subject.refusals += 1
        subject.launch_not_before = now + timedelta(seconds=backoff_seconds(subject.refusals, subject.dice.random()))

    def hold_moves(self, subject: Subject, now: datetime) -> None:
        """No coming-home move before the hold-down has passed."""
        subject.move_not_before = now + self._hold_down

    def _mark_starting(self, subject: Subject, action: do.MarkStarting, now: datetime) -> None:
        subject.machines[action.instance.id].see(stage=Stage.STARTING, stage_since=now)

    def _mark_ready(self, subject: Subject, action: do.MarkReady, now: datetime) -> None:
        machine = subject.machines[action.instance.id]
        machine.see(stage=Stage.READY, stage_since=now, was_ready=True, failed_pings=0)
        machine.ready_at = now
        subject.start_failures, subject.start_failure_reason = 0, ""
        self._ledger.serves(subject, machine, is_serving=machine.row.sighting is Sighting.RUNNING, now=now)
        if subject.believed_ready() >= subject.desired_count:
            subject.short_since = None

    def _note_end(self, subject: Subject, action: do.NoteEnd, now: datetime) -> None:
        machine = subject.machines[action.instance.id]
        machine.see(ends_at=action.ends_at)
        if machine.key[2] == SPOT:
            self._memory.note_interruption(machine.key, action.why, subject.name, now)

    def _drain(self, subject: Subject, action: do.Drain, now: datetime) -> None:
        machine = subject.machines[action.instance.id]
        is_busy = subject.group.drain_seconds > 0
        machine.see(stage=Stage.DRAINING, stage_since=now, in_flight=int(is_busy))
        self._ledger.serves(subject, machine, is_serving=False, now=now)
        if is_busy:
            self._lives.drain(subject, machine)

    def _terminate(self, subject: Subject, action: do.Terminate, now: datetime) -> None:
        machine = subject.machines[action.instance.id]
        is_first = machine.row.terminate_asked_at is None
        since = now if machine.row.stage is not Stage.TERMINATING else machine.row.stage_since
        stopping = machine.row.sighting if machine.is_gone else Sighting.STOPPING
        machine.see(stage=Stage.TERMINATING, stage_since=since, terminate_asked_at=now, sighting=stopping)
        self._ledger.serves(subject, machine, is_serving=False, now=now)
        self._note_start_failure(subject, action.start_failure, now)
        if is_first:
            subject.ends(machine, now)
        if is_first and not machine.is_gone:
            self._lives.stop(subject, machine)

    def _forget(self, subject: Subject, action: do.ForgetInstance, now: datetime) -> None:
        machine = subject.machines.pop(action.instance.id)
        if machine.row.terminate_asked_at is None:
            subject.ends(machine, now)
        self._note_start_failure(subject, action.start_failure, now)
        self._memory.reopen(machine.key, now)

    def _note_start_failure(self, subject: Subject, failure: do.StartFailure | None, now: datetime) -> None:
        if failure is None:
            return
        subject.start_failures = START_FAILURES_LIMIT if failure.is_final else subject.start_failures + 1
        subject.start_failure_reason = failure.reason
        pause = backoff_seconds(subject.start_failures, 0.0, first=2.0)
        subject.launch_not_before = now + timedelta(seconds=pause)

    def _note_short(self, subject: Subject, action: do.NoteShort, now: datetime) -> None:
        subject.short_since = now

    def _end_move(self, subject: Subject, action: do.EndMove, now: datetime) -> None:
        tally = self._ledger.tallies[subject.group.name]
        for machine in subject.machines.values():
            if machine.row.replaces:
                is_done = machine.row.stage is Stage.READY
                tally.moves, tally.moves_undone = tally.moves + is_done, tally.moves_undone + (not is_done)
                machine.see(replaces="")
        self.hold_moves(subject, now)

    def _enter_service(self, subject: Subject, action: do.EnterService, now: datetime) -> None:
        subject.phase, subject.modified_at = Phase.IN_SERVICE, now
        subject.provision_deadline = subject.rollback_count = subject.short_since = None
        if subject.in_service_at is None:
            subject.in_service_at = now
            self._ledger.entered_service(subject, now)

    def _give_up(self, subject: Subject, action: do.GiveUp, now: datetime) -> None:
        subject.provision_deadline, subject.modified_at = None, now
        if subject.phase is Phase.CREATING:
            subject.phase = Phase.FAILED
            self._ledger.failed(subject, now)
            return
        subject.phase = Phase.ROLLING_BACK
        self._ledger.tallies[subject.group.name].rolled_back += 1
        if subject.rollback_count is not None:
            subject.desired_count, subject.rollback_count = subject.rollback_count, None


_PERFORM: dict[type, Callable[[Actor, Subject, Any, datetime], None]] = {
    do.MarkStarting: Actor._mark_starting,
    do.MarkReady: Actor._mark_ready,
    do.NoteEnd: Actor._note_end,
    do.Drain: Actor._drain,
    do.Terminate: Actor._terminate,
    do.ForgetInstance: Actor._forget,
    do.NoteShort: Actor._note_short,
    do.EndMove: Actor._end_move,
    do.EnterService: Actor._enter_service,
    do.GiveUp: Actor._give_up,
}
