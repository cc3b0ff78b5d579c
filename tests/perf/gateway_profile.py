"""Where the gateway's time goes: `python -m tests.perf.gateway_profile FILE`.

It runs the gateway; SIGUSR2 begins the profile, so that starting is left out, and SIGINT ends both. SIGUSR1 is what the
gateway itself takes (see `controlplane.core.stacks`).
"""

import cProfile
import pstats
import signal
import sys
from collections import Counter
from pathlib import Path

from controlplane.gateway import __main__ as gateway

SHOWN = 16
_LOOP = "the event loop and the system's calls (uvloop)"
_ROOTS = ("controlplane", "uvicorn", "psycopg", "psycopg_pool", "asyncio")


def shares(file: Path) -> list[tuple[str, float]]:
    """Modules by their own share of the time that was not waiting, largest first; calls of built-in functions count for
    whoever makes them. The profiler makes small functions look dearer than they are."""
    spent: Counter[str] = Counter()
    for (path, _line, name), (_calls, _all, own, _cumulative, callers) in pstats.Stats(str(file)).stats.items():  # type: ignore[attr-defined]
        if path != "~":
            spent[_module(path)] += own
        elif "run_until_complete" not in name:
            for (caller, _, _), (*_, share, _with_callees) in callers.items():
                spent[_module(caller)] += share
    total = sum(spent.values()) or 1.0
    return [(name, own / total) for name, own in spent.most_common(SHOWN)]


def functions(file: Path) -> list[tuple[str, float, float]]:
    """The functions that cost most themselves: name, calls in all, microseconds a call of their own."""
    rows = [
        (f"{_module(path)}: {name}" if path != "~" else name.strip("<>"), calls, own)
        for (path, _line, name), (calls, _all, own, *_rest) in pstats.Stats(str(file)).stats.items()  # type: ignore[attr-defined]
        if "run_until_complete" not in name
    ]
    rows.sort(key=lambda row: -row[2])
    return [(name[:90], calls, 1e6 * own / calls) for name, calls, own in rows[:SHOWN]]


def _module(path: str) -> str:
    """A module of ours or of what we stand on; of others the file."""
    if path.endswith("asyncio/runners.py") or path == "~":
        return _LOOP
    parts = Path(path).with_suffix("").parts
    for root in _ROOTS:
        if root in parts:
            return ".".join(parts[len(parts) - 1 - parts[::-1].index(root) :])
    return parts[-1]


def main() -> None:
    """Profile the gateway at work."""
    profile = cProfile.Profile()
    signal.signal(signal.SIGUSR2, lambda *_: profile.enable())
    try:
        gateway.main()
    finally:
        profile.disable()
        profile.dump_stats(sys.argv[1])


if __name__ == "__main__":
    main()
