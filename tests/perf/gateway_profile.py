"""Where the gateway's time goes: `python -m tests.perf.gateway_profile FILE` runs it under cProfile until SIGINT."""

import cProfile
import pstats
import sys
from collections import Counter
from pathlib import Path

from controlplane.gateway import __main__ as gateway

SHOWN = 14


def shares(file: Path) -> list[tuple[str, float]]:
    """Modules by their own share of the processor time, largest first. The profiler makes small functions look dearer."""
    spent: Counter[str] = Counter()
    for (path, _line, function), (_calls, _all, own, _cumulative, _callers) in pstats.Stats(str(file)).stats.items():  # type: ignore[attr-defined]
        spent[_subject(path, function)] += own
    waiting = spent.pop("waiting", 0.0)
    del waiting
    total = sum(spent.values()) or 1.0
    return [(name, own / total) for name, own in spent.most_common(SHOWN)]


def _subject(path: str, function: str) -> str:
    """What a function belongs to: a module of ours, or a package."""
    if path == "~":
        return (
            "waiting"
            if "run_until_complete" in function or "poll" in function
            else f"built in: {function.strip('<>')[:60]}"
        )
    parts = Path(path).with_suffix("").parts
    for root in ("controlplane", "uvicorn", "psycopg", "psycopg_pool", "asyncio"):
        if root in parts:
            return ".".join(parts[parts.index(root) :])
    return parts[-1]


def main() -> None:
    """Profile the gateway's life."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        gateway.main()
    finally:
        profile.disable()
        profile.dump_stats(sys.argv[1])


if __name__ == "__main__":
    main()
