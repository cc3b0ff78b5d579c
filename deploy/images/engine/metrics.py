"""The engine's /metrics page, in the names that vLLM has now, had before, or that SGLang has."""

from bisect import bisect_left
from collections.abc import Sequence

from core import Engine

STYLES = ("vllm", "vllm-old", "sglang")
TTFT_BUCKETS = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
BETWEEN_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
WHOLE_BUCKETS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0)


class Histogram:
    """Counts of values by upper bound; seconds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        """The histogram as it is written: cumulative counts, sum and count."""
        found, below = [f"# TYPE {name} histogram"], 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            below += count
            found.append(f'{name}_bucket{{{labels},le="{bound}"}} {below}')
        return [*found, f"{name}_sum{{{labels}}} {self._sum:.6f}", f"{name}_count{{{labels}}} {below}"]


class Meters:
    """What the page tells beside the engine's own counters."""

    def __init__(self) -> None:
        self.first_token = Histogram(TTFT_BUCKETS)
        self.between_tokens = Histogram(BETWEEN_BUCKETS)
        self.whole_request = Histogram(WHOLE_BUCKETS)


def page(engine: Engine, meters: Meters, style: str, model: str) -> str:
    """The page in one of the STYLES; times on it are the engine's own, whatever the time scale."""
    is_sglang = style == "sglang"
    labels = f'model_name="{model}"' + ("" if is_sglang else ',engine="0"')
    gauges, counters = (_sglang if is_sglang else _vllm)(engine, style)
    prefix = "sglang" if is_sglang else "vllm"
    lines: list[str] = []
    for kind, numbers in (("gauge", gauges), ("counter", counters)):
        for name, number in numbers.items():
            lines += [f"# TYPE {prefix}:{name} {kind}", f"{prefix}:{name}{{{labels}}} {number}"]
    lines.append(_cache_info(engine, prefix, labels))
    lines += meters.first_token.lines(f"{prefix}:time_to_first_token_seconds", labels)
    lines += meters.between_tokens.lines(f"{prefix}:inter_token_latency_seconds", labels)
    lines += meters.whole_request.lines(f"{prefix}:e2e_request_latency_seconds", labels)
    return "\n".join([*lines, ""])


Numbers = dict[str, float]


def _vllm(engine: Engine, style: str) -> tuple[Numbers, Numbers]:
    totals = engine.totals
    usage = "gpu_cache_usage_perc" if style == "vllm-old" else "kv_cache_usage_perc"
    cache = "gpu_prefix_cache" if style == "vllm-old" else "prefix_cache"
    gauges: Numbers = {
        "num_requests_running": len(engine.running),
        "num_requests_waiting": len(engine.waiting),
        usage: round(_usage(engine), 6),
    }
    counters: Numbers = {
        f"{cache}_queries_total": totals.cache_queries,
        f"{cache}_hits_total": totals.cache_hits,
        "prompt_tokens_total": totals.prompt,
        "prompt_tokens_cached_total": totals.cache_hits,
        "generation_tokens_total": totals.generated,
        "num_preemptions_total": totals.preemptions,
        "request_success_total": totals.finished_requests,
    }
    return gauges, counters


def _sglang(engine: Engine, style: str) -> tuple[Numbers, Numbers]:
    totals = engine.totals
    gauges: Numbers = {
        "num_running_reqs": len(engine.running),
        "num_queue_reqs": len(engine.waiting),
        "token_usage": round(_usage(engine), 6),
        "cache_hit_rate": round(totals.cache_hits / totals.cache_queries, 6) if totals.cache_queries else 0.0,
        "num_used_tokens": engine.cache.in_use * engine.speed.block_tokens,
        "max_total_num_tokens": engine.cache.size * engine.speed.block_tokens,
    }
    counters: Numbers = {
        "prompt_tokens_total": totals.prompt,
        "generation_tokens_total": totals.generated,
        "cached_tokens_total": totals.cache_hits,
        "num_requests_total": totals.finished_requests,
    }
    return gauges, counters


def _usage(engine: Engine) -> float:
    return engine.cache.in_use / engine.cache.size


def _cache_info(engine: Engine, prefix: str, labels: str) -> str:
    size, count = engine.speed.block_tokens, engine.cache.size
    names = ("page_size", "num_pages") if prefix == "sglang" else ("block_size", "num_gpu_blocks")
    return f'{prefix}:cache_config_info{{{labels},{names[0]}="{size}",{names[1]}="{count}"}} 1.0'
