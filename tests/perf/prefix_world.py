"""Engines, a balancer and callers on one virtual clock: what routing does to the time to the first token.

The product's own parts, `Balancer` with its strategies and the engine simulator's core, without a network between them.
Every second of virtual time the engines' loads reach the balancer, as by the gateway's scraper.
"""

import heapq
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from controlplane.routing.balancer import Balancer
from controlplane.routing.engine_load import EngineLoad
from controlplane.routing.prefix import Ask
from controlplane.routing.table import PrefixAware, Target, VariantRoute
from tests.deploy.engine_modules import Engine, Speed, Work, chain_of

STRATEGIES = ("RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE", "KV_AWARE")
CHARACTERS_A_TOKEN = 4
SCRAPE_SECONDS = 1.0


@dataclass(frozen=True)
class Mix:
    """A load: `prefixes` beginnings of `prefix_tokens`, each seen as often as one of `seen` says, with a question behind.

    Calls come at random, `rate` a second; those of one beginning are spread over the whole run.
    """

    name: str
    prefixes: int
    prefix_tokens: tuple[int, int]
    seen: tuple[int, ...]
    question_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    rate: float
    prefix_length: int = 4_096
    threshold: int = 64


@dataclass(frozen=True)
class Call:
    """One call of a mix."""

    at: float
    body: bytes
    chain: tuple[int, ...]
    prompt_tokens: int
    output_tokens: int
    prefix: int


@dataclass
class Outcome:
    """What one run came to; times in seconds. `visits` has when which beginning went to which instance."""

    first_tokens: list[float] = field(default_factory=list)
    whole_calls: list[float] = field(default_factory=list)
    by_instance: Counter[str] = field(default_factory=Counter)
    visits: list[tuple[float, int, str]] = field(default_factory=list)
    hit_tokens: int = 0
    prompt_tokens: int = 0
    ended_at: float = 0.0

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / self.prompt_tokens

    def quantile(self, part: float) -> float:
        """The time to the first token within which this part of the calls had theirs."""
        ordered = sorted(self.first_tokens)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]

    @property
    def shares(self) -> tuple[float, float]:
        """The smallest and the largest share of the calls that an instance had."""
        total = self.by_instance.total()
        return min(self.by_instance.values()) / total, max(self.by_instance.values()) / total


def calls_of(mix: Mix, seed: int) -> list[Call]:
    """The calls of a mix in order of time; the same for every strategy."""
    draw = random.Random(seed)
    order = [prefix for prefix in range(mix.prefixes) for _ in range(draw.choice(mix.seen))]
    draw.shuffle(order)
    texts: dict[int, str] = {}
    calls, at = [], 0.0
    for prefix in order:
        at += draw.expovariate(mix.rate)
        if prefix not in texts:
            texts[prefix] = _text(draw, draw.randint(*mix.prefix_tokens))
        text = texts[prefix] + _text(draw, draw.randint(*mix.question_tokens))
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        chain = tuple(chain_of(text, Speed().block_tokens * CHARACTERS_A_TOKEN))
        tokens = len(text) // CHARACTERS_A_TOKEN
        calls.append(Call(at, body, chain, tokens, draw.randint(*mix.output_tokens), prefix))
    return calls


def _text(draw: random.Random, tokens: int) -> str:
    """Text of so many tokens, all of it different from any other."""
    return draw.randbytes(tokens * CHARACTERS_A_TOKEN // 2).hex()


class World:
    """One run; `targets` may change while it lasts."""

    def __init__(self, strategy: str, mix: Mix, instances: int, seed: int, speed: Speed) -> None:
        self.outcome = Outcome()
        self.balancer = Balancer(draw=random.Random(seed))
        self._strategy = strategy
        self._mix = mix
        self._speed = speed
        self.engines: dict[str, Engine] = {}
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._stepping: set[str] = set()
        self._under_way: dict[int, tuple[Call, str, object, Work]] = {}
        self.resize(instances)

    def resize(self, instances: int) -> None:
        """Have so many instances take calls; those that leave finish what they have."""
        names = [f"i-{number:02}" for number in range(instances)]
        for name in names:
            self.engines.setdefault(name, Engine(self._speed))
        targets = tuple(Target(name, "127.0.0.1:1", "ml.p5.48xlarge", False) for name in names)
        prefix_aware = PrefixAware(self._mix.prefix_length, self._mix.threshold)
        self.variant = VariantRoute("main", 1.0, self._strategy, targets, prefix_aware=prefix_aware)

    def at(self, when: float, what: Callable[[float], None]) -> None:
        """Let something happen at a moment."""
        heapq.heappush(self._events, (when, next(self._order), what))

    def run(self, calls: list[Call]) -> Outcome:
        """Let all calls come, be answered, and count what it came to."""
        self._calls = iter(calls)
        self._left = len(calls)
        self._next_call()
        self.at(0.0, self._scrape)
        while self._left:
            now, _, what = heapq.heappop(self._events)
            what(now)
            self.outcome.ended_at = now
        for engine in self.engines.values():
            self.outcome.hit_tokens += engine.totals.cache_hits
            self.outcome.prompt_tokens += engine.totals.cache_queries
        return self.outcome

    def _next_call(self) -> None:
        call = next(self._calls, None)
        if call is not None:
            self.at(call.at, lambda now: self._arrive(call, now))

    def _arrive(self, call: Call, now: float) -> None:
        self._next_call()
        target = self.balancer.choose("endpoint", self.variant, Ask(call.body, is_chat=True), now)
        name, key = target.instance_id, next(self._order)
        counted = self.balancer.in_flight.call(name)
        counted.__enter__()
        self.outcome.by_instance[name] += 1
        self.outcome.visits.append((now, call.prefix, name))
        work = Work(key, call.chain, call.prompt_tokens, call.output_tokens, now)
        self._under_way[key] = (call, name, counted, work)
        self.engines[name].add(work)
        self._step(name, now)

    def _step(self, name: str, now: float) -> None:
        engine = self.engines[name]
        if name in self._stepping or engine.is_idle:
            return
        self._stepping.add(name)
        seconds, tokens = engine.step()

        def ended(now: float) -> None:
            self._stepping.discard(name)
            for token in tokens:
                self._token(token.key, token.number, token.is_last, now)  # type: ignore[arg-type]
            self._step(name, now)

        self.at(now + seconds, ended)

    def _token(self, key: int, number: int, is_last: bool, now: float) -> None:
        call, _, counted, _ = self._under_way[key]
        if number == 1:
            self.outcome.first_tokens.append(now - call.at)
        if is_last:
            self.outcome.whole_calls.append(now - call.at)
            counted.__exit__(None, None, None)  # type: ignore[attr-defined]
            del self._under_way[key]
            self._left -= 1

    def _scrape(self, now: float) -> None:
        for target in self.balancer.cache_aware_targets(now, within_seconds=30.0):
            engine = self.engines[target.instance_id]
            usage = engine.cache.in_use / engine.cache.size
            tokens = engine.cache.size * engine.speed.block_tokens
            load = EngineLoad(now, len(engine.running), len(engine.waiting), usage, tokens)
            self.balancer.scraped(target.instance_id, load)
        self.at(now + SCRAPE_SECONDS, self._scrape)


def outcomes(mix: Mix, instances: int, seed: int, speed: Speed) -> Iterator[tuple[str, Outcome]]:
    """What each strategy makes of the same calls."""
    calls = calls_of(mix, seed)
    for strategy in STRATEGIES:
        yield strategy, World(strategy, mix, instances, seed, speed).run(calls)
