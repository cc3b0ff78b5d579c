"""How an LLM engine spends its time: continuous batching over a paged cache with prefix reuse. Pure.

Work is done in steps. A step lets waiting requests in while there are seats and cache for their prompts, computes a
budget of prompt tokens (first come, first served, a long prompt over several steps) and one more token for every request
whose prompt is done. It lasts

    step_seconds + computed prompt tokens / prefill_tokens_per_second + decoding requests * decode_seconds

Prompts are cut into blocks, each hashed with all that come before it. Blocks of a request that has ended stay cached
until their place is needed, the least recently used going first; a request that begins like an earlier one finds its
blocks and computes the rest only. When the cache is full of blocks in use, the request that came last gives its blocks
up and starts again later.

    waiting --admitted--> prefilling --prompt done, first token--> decoding --last token--> gone
       ^                                                            |
       +------------------ no cache left for its next block --------+

Time is the caller's: `step` says how long it takes and what it brings forth; nothing here waits.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Speed:
    """What the imagined accelerator can do; times in seconds, sizes in tokens. The defaults are those of a 70B model on
    eight large GPUs: some 20,000 prompt tokens a second, some 40 tokens a second for each of few requests."""

    prefill_tokens_per_second: float = 20_000.0
    step_seconds: float = 0.022
    decode_seconds: float = 0.0004
    step_tokens: int = 4_096
    seats: int = 64
    block_tokens: int = 16
    blocks: int = 30_000


@dataclass(eq=False)
class Work:
    """One request: its prompt's block hashes, its lengths in tokens, and how far it has come."""

    key: Hashable
    chain: Sequence[int]
    prompt_tokens: int
    output_tokens: int
    arrived: float = 0.0
    cached_tokens: int = 0
    computed: int = 0
    produced: int = 0
    held: list[Hashable] = field(default_factory=list)

    @property
    def needs_prefill(self) -> bool:
        return self.computed < self.prompt_tokens + self.produced

    def blocks_for(self, tokens: int, block_tokens: int) -> int:
        """How many blocks hold so many tokens."""
        return -(-tokens // block_tokens)


@dataclass
class Totals:
    """Counters since the start; tokens, unless the name says otherwise."""

    prompt: int = 0
    cache_queries: int = 0
    cache_hits: int = 0
    generated: int = 0
    finished_requests: int = 0
    aborted_requests: int = 0
    preemptions: int = 0


@dataclass(frozen=True)
class Token:
    """One token of one request, at the end of the step that made it."""

    key: Hashable
    number: int
    is_last: bool


class Cache:
    """Blocks in use, counted, and blocks that are only remembered, the least recently used first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._uses: dict[Hashable, int] = {}
        self._idle: OrderedDict[Hashable, None] = OrderedDict()

    @property
    def in_use(self) -> int:
        return len(self._uses)

    def __len__(self) -> int:
        return len(self._uses) + len(self._idle)

    def match(self, chain: Sequence[int]) -> int:
        """How many blocks from the start of `chain` are there."""
        for place, block in enumerate(chain):
            if block not in self._uses and block not in self._idle:
                return place
        return len(chain)

    def room_for(self, blocks: Sequence[Hashable]) -> bool:
        """Whether all these can be in use at once beside those that are."""
        return len(self._uses) + sum(block not in self._uses for block in blocks) <= self.size

    def take(self, block: Hashable) -> None:
        """Use a block, making room for it if it is not there; `room_for` must hold."""
        self._idle.pop(block, None)
        self._uses[block] = self._uses.get(block, 0) + 1
        while len(self) > self.size:
            self._idle.popitem(last=False)

    def give_back(self, blocks: Sequence[Hashable], *, keep: bool) -> None:
        """Stop using blocks, the last first, so that of a prompt the end is forgotten before the beginning."""
        for block in reversed(blocks):
            left = self._uses.pop(block) - 1
            if left:
                self._uses[block] = left
            elif keep and isinstance(block, int):
                self._idle[block] = None


class Engine:
    """One engine; see the module's text."""

    def __init__(self, speed: Speed) -> None:
        self.speed = speed
        self.cache = Cache(speed.blocks)
        self.waiting: deque[Work] = deque()
        self.running: list[Work] = []
        self.totals = Totals()

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.running

    def add(self, work: Work) -> None:
        """Take a request in; raises ValueError when it can never fit."""
        total = work.prompt_tokens + work.output_tokens
        if work.blocks_for(total, self.speed.block_tokens) > self.speed.blocks:
            raise ValueError(f"{total} tokens are more than the cache holds")
        self.waiting.append(work)

    def abort(self, key: Hashable) -> None:
        """Forget a request whose client is gone; one that is not there has ended."""
        for work in [each for each in self.running if each.key == key]:
            self.running.remove(work)
            self._release(work)
            self.totals.aborted_requests += 1
        left = deque(work for work in self.waiting if work.key != key)
        self.totals.aborted_requests += len(self.waiting) - len(left)
        self.waiting = left

    def step(self) -> tuple[float, list[Token]]:
        """Do one step: how long it takes, and the tokens that are there at its end."""
        self._admit()
        prefilled = self._prefill()
        decoding = [work for work in self.running if not work.needs_prefill]
        tokens = [self._produce(work) for work in decoding if self._grow(work)]
        speed = self.speed
        seconds = speed.step_seconds + prefilled / speed.prefill_tokens_per_second + len(tokens) * speed.decode_seconds
        return seconds, tokens

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.speed.seats:
            work = self.waiting[0]
            blocks = self._blocks_of(work)
            if not self.cache.room_for(blocks):
                return
            self.waiting.popleft()
            self._seat(work, blocks)

    def _seat(self, work: Work, blocks: list[Hashable]) -> None:
        """Give a request its cache; what it finds there need not be computed, but for the prompt's last token."""
        matched = self.cache.match(work.chain) * self.speed.block_tokens
        for block in blocks:
            self.cache.take(block)
        work.held = blocks
        work.computed = min(matched, work.prompt_tokens - 1)
        if not work.produced:
            work.cached_tokens = work.computed
            self.totals.prompt += work.prompt_tokens
            self.totals.cache_queries += work.prompt_tokens
            self.totals.cache_hits += work.computed
        self.running.append(work)

    def _blocks_of(self, work: Work) -> list[Hashable]:
        """The blocks of all tokens so far: the prompt's by their hashes, the others the request's own."""
        count = work.blocks_for(work.prompt_tokens + work.produced, self.speed.block_tokens)
        return [*work.chain, *((work.key, place) for place in range(len(work.chain), count))]

    def _prefill(self) -> int:
        """Compute prompt tokens, as many as a step may, for whoever came first."""
        left = self.speed.step_tokens
        for work in self.running:
            if not left:
                break
            share = min(left, work.prompt_tokens + work.produced - work.computed)
            work.computed += share
            left -= share
        return self.speed.step_tokens - left

    def _grow(self, work: Work) -> bool:
        """See to it that a request has cache for its next token; False when it had to give up its own."""
        needed = work.blocks_for(work.prompt_tokens + work.produced + 1, self.speed.block_tokens)
        if work not in self.running:
            return False
        while needed > len(work.held):
            if self.cache.in_use < self.cache.size:
                block = (work.key, len(work.held))
                self.cache.take(block)
                work.held.append(block)
                continue
            last = self.running[-1]
            self._preempt(last)
            if last is work:
                return False
        return True

    def _preempt(self, work: Work) -> None:
        self.running.remove(work)
        self._release(work)
        self.waiting.appendleft(work)
        self.totals.preemptions += 1

    def _release(self, work: Work) -> None:
        self.cache.give_back(work.held, keep=True)
        work.held = []

    def _produce(self, work: Work) -> Token:
        work.produced += 1
        work.computed += 1
        self.totals.generated += 1
        is_last = work.produced >= work.output_tokens
        if is_last:
            self.running.remove(work)
            self._release(work)
            self.totals.finished_requests += 1
        return Token(work.key, work.produced, is_last)


def chain_of(text: str, block_characters: int) -> list[int]:
    """The hashes of a prompt's whole blocks, each covering all that comes before it."""
    chain, previous = [], 0
    for start in range(0, len(text) - block_characters + 1, block_characters):
        previous = hash((previous, text[start : start + block_characters]))
        chain.append(previous)
    return chain
