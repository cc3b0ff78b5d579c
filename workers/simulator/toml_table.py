"""Reading one table of a TOML file field by field; every fault is collected and names its field and its limits."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

TEXT_LIMIT = 200
LIST_LIMIT = 1000
PROBLEMS_SHOWN = 20


class ScenarioError(Exception):
    """The file is no scenario; `problems` has one sentence for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        shown = list(problems[:PROBLEMS_SHOWN])
        if len(problems) > len(shown):
            shown.append(f"... and {len(problems) - len(shown)} more")
        super().__init__("\n".join(shown))
        self.problems = tuple(problems)


class Table:
    """A table with its place in the file. A faulty field reads as the value given as its stand-in, so that one pass finds
    all faults; `problems` is shared by all tables of a file. Fields nobody asked for are faults of `close`."""

    def __init__(self, values: Any, where: str, problems: list[str]) -> None:
        self._where = where
        self._problems = problems
        self._asked: set[str] = set()
        self._values: Mapping[str, Any] = values if isinstance(values, dict) else {}
        if not isinstance(values, dict):
            problems.append(f"{where}: must be a table, is {_shown(values)}")

    def has(self, name: str) -> bool:
        """Whether the file names this field."""
        return name in self._values

    def fault(self, name: str, what: str) -> None:
        """Note a fault of a field."""
        self._problems.append(f"{self._place(name)}: {what}")

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A finite number from `low` to `high`; required where there is no default."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_within(value, low, high):
            self._refuse(name, value, f"a number from {low:g} to {high:g}", default)
            return low if default is None else default
        return float(value)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from `low` to `high`; required where there is no default."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self._refuse(name, value, f"a whole number from {low} to {high}", default)
            return low if default is None else default
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """Text of 1 to TEXT_LIMIT printable characters; required where there is no default."""
        value = self._take(name, default)
        if not isinstance(value, str) or (not _is_name(value) and value != default):
            self._refuse(name, value, f"text of 1 to {TEXT_LIMIT} printable characters", default)
            return default or ""
        return value

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of these words."""
        value = self._take(name, default)
        if value not in choices and value != default:
            self._refuse(name, value, f"one of {', '.join(choices)}", default)
            return default
        return str(value)

    def words(
        self, name: str, choices: Iterable[str] | None = None, default: tuple[str, ...] | None = None
    ) -> tuple[str, ...]:
        """A list of different words, from `choices` where there are any; not empty where there is no default."""
        if default is not None and not self.has(name):
            self._asked.add(name)
            return default
        value = self._take(name, None)
        allowed = None if choices is None else tuple(choices)
        wanted = "a list of different words" if allowed is None else f"a list of some of {', '.join(allowed)}"
        if not isinstance(value, list) or not value or len(value) > LIST_LIMIT or not _are_words(value, allowed):
            self._refuse(name, value, wanted, default)
            return default or ()
        return tuple(value)

    def tables(self, name: str, read: Callable[["Table"], T], limit: int, *, is_required: bool = False) -> tuple[T, ...]:
        """A list of 0 (or 1) to `limit` tables, each read by `read`."""
        value = self._take(name, None if is_required else ())
        low = int(is_required)
        if not isinstance(value, list | tuple) or not low <= len(value) <= limit:
            self._refuse(name, value, f"a list of {low} to {limit} tables", None)
            return ()
        found = [Table(each, f"{self._place(name)}[{place}]", self._problems) for place, each in enumerate(value)]
        return tuple(_closed(table, read) for table in found)

    def table(self, name: str, read: Callable[["Table"], T]) -> T | None:
        """A table inside this one, None where the file has none."""
        value = self._take(name, None)
        if value is None:
            return None
        return _closed(Table(value, self._place(name), self._problems), read)

    def close(self) -> None:
        """Fault every field that nobody asked for: a misspelt setting must not be silently without effect."""
        for name in self._values:
            if name not in self._asked:
                self.fault(name, f"there is no such field; there are {', '.join(sorted(self._asked))}")

    def _take(self, name: str, default: Any) -> Any:
        self._asked.add(name)
        return self._values.get(name, default)

    def _refuse(self, name: str, value: Any, wanted: str, default: Any) -> None:
        is_missing = value is None and default is None and not self.has(name)
        self.fault(name, f"is missing: must be {wanted}" if is_missing else f"must be {wanted}, is {_shown(value)}")

    def _place(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def _closed(table: Table, read: Callable[[Table], T]) -> T:
    found = read(table)
    table.close()
    return found


def _is_within(value: float, low: float, high: float) -> bool:
    """Compared before it is made a float: a whole number of TOML may be larger than any float."""
    return low <= value <= high and math.isfinite(value)


def _is_name(value: str) -> bool:
    return 0 < len(value) <= TEXT_LIMIT and value.isprintable()


def _are_words(value: list[Any], allowed: tuple[str, ...] | None) -> bool:
    if not all(isinstance(each, str) and _is_name(each) for each in value) or len(set(value)) != len(value):
        return False
    return allowed is None or set(value) <= set(allowed)


def _shown(value: Any) -> str:
    """A value short enough for a message. A whole number may have more digits than Python is willing to print."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return "a number out of any range"
    text = str(value) if isinstance(value, int | float) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
