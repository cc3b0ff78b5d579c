"""What this process did a moment ago, for as long as EC2's listings may lag behind it."""

import threading

from controlplane.core import clock


class Recent:
    """Names with the time they were first noted, forgotten some time after the window."""

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._noted: dict[str, float] = {}
        self._lock = threading.Lock()

    def note(self, name: str) -> None:
        """Note this name now; one that is noted already keeps its time."""
        now = clock.monotonic()
        with self._lock:
            self._noted = {each: at for each, at in self._noted.items() if now - at <= 10 * self._window_seconds}
            self._noted.setdefault(name, now)

    def is_fresh(self, name: str) -> bool:
        """Whether the name was first noted less than the window ago; False for one that was not noted."""
        at = self._noted.get(name)
        return at is not None and clock.monotonic() - at < self._window_seconds
