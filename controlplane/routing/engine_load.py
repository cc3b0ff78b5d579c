"""What an engine says of itself at /metrics, in the names of vLLM and SGLang, older and newer. Pure.

Only the lines that routing needs are looked for: a page holds hundreds. Series of several engines behind one address
(data parallelism) are added up, of their cache usages the highest counts. Names: contract, data plane 5.5.
"""

import re
from dataclasses import dataclass

STALE_SECONDS = 3.0
"""Older than this a load says nothing: three rounds of scraping were missed."""

WAITING_LIMIT = 5.0
USAGE_LIMIT = 0.8
"""At so many waiting calls, or so full a cache, an engine is saturated (contract, data plane 3.7)."""

_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
_CACHE = ("vllm:cache_config_info", "sglang:cache_config_info")

_LINE = re.compile(
    rf"^({'|'.join((*_RUNNING, *_WAITING, *_USAGE, *_CACHE))})(?:\{{([^\n]*)\}})?[ \t]+([^\s]+)", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="(\d+)"')


@dataclass(frozen=True)
class EngineLoad:
    """One engine's load at `at` (seconds of the monotonic clock).

    `usage` is the part of the cache in use by calls under way, 0 to 1; `cache_tokens` what the cache holds, 0 = unknown.
    """

    at: float
    running: float = 0.0
    waiting: float = 0.0
    usage: float = 0.0
    cache_tokens: int = 0

    @property
    def is_saturated(self) -> bool:
        return max(self.waiting / WAITING_LIMIT, self.usage / USAGE_LIMIT) >= 1

    def is_fresh(self, now: float) -> bool:
        """Whether it still says something."""
        return now - self.at <= STALE_SECONDS


def parse(page: str, at: float) -> EngineLoad | None:
    """The load in a metrics page; None when it has neither running nor waiting calls: no engine that is known here."""
    numbers: dict[str, list[float]] = {}
    tokens = 0
    for name, labels, written in _LINE.findall(page):
        if name in _CACHE:
            tokens = max(tokens, _cache_tokens(dict(_LABEL.findall(labels))))
        elif (number := _number(written)) is not None:
            numbers.setdefault(name, []).append(number)
    running, waiting, usage = (_first(numbers, names) for names in (_RUNNING, _WAITING, _USAGE))
    if not running and not waiting:
        return None
    return EngineLoad(at, sum(running), sum(waiting), min(max(usage, default=0.0), 1.0), tokens)


def _first(numbers: dict[str, list[float]], names: tuple[str, ...]) -> list[float]:
    """The series under the first of these names that has any."""
    return next((numbers[name] for name in names if name in numbers), [])


def _number(written: str) -> float | None:
    """A gauge's value; what is negative, endless or no number is left out."""
    try:
        number = float(written)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _cache_tokens(labels: dict[str, str]) -> int:
    size = labels.get("block_size") or labels.get("page_size") or "0"
    count = labels.get("num_gpu_blocks") or labels.get("num_pages") or "0"
    return int(size) * int(count)
