"""While one launch finds out about an offering the others wait: `workers.fleet.first_ask` restated without its database."""

from datetime import datetime, timedelta

from workers.providers.base import CALL_TIMEOUT_SECONDS
from workers.simulator.fleet import Call, Subject
from workers.simulator.weather import Key

ANSWER_SECONDS = 60.0
LOOK_FIRST_SECONDS = 0.1
LOOK_LAST_SECONDS = 2.0
"""As in `workers.fleet.first_ask`, which cannot be imported without a database;
`tests/workers/simulator/test_likeness.py` holds them equal."""


class FirstAsk:
    """The launch calls under way by key, in the order in which they were made, and since when a key is known to be open."""

    def __init__(self) -> None:
        self._under_way: dict[Key, dict[str, tuple[str, datetime]]] = {}
        self._known_open: dict[Key, datetime] = {}

    def wait_until(self, key: Key, subject: Subject, now: datetime) -> datetime | None:
        """When this launch should be thought of again because another endpoint's is finding out; None when it may go."""
        known = self._known_open.get(key)
        if known is not None and now - known < timedelta(seconds=ANSWER_SECONDS):
            return None
        first = self._first_of_others(key, subject, now)
        if first is None:
            return None
        age = (now - first).total_seconds()
        return now + timedelta(seconds=min(max(age, LOOK_FIRST_SECONDS), LOOK_LAST_SECONDS))

    def called(self, call: Call, subject: Subject) -> None:
        """A launch call is made."""
        self._under_way.setdefault(call.key, {})[call.token] = (subject.name, call.called_at)

    def answered(self, call: Call, now: datetime, *, is_launched: bool) -> None:
        """It was answered, or nobody will ever know."""
        self._under_way.get(call.key, {}).pop(call.token, None)
        if is_launched:
            self._known_open[call.key] = now

    def _first_of_others(self, key: Key, subject: Subject, now: datetime) -> datetime | None:
        since = now - timedelta(seconds=CALL_TIMEOUT_SECONDS)
        for name, called_at in self._under_way.get(key, {}).values():
            if name != subject.name and called_at > since:
                return called_at
        return None
