"""Where a process can die, found generically: around every commit, every lone statement and every provider call.

    reach --> call goes out        reach --> commit        reach --> statement outside a transaction
              call came back --> reach      commit done --> reach    statement done --> reach

Product code knows nothing of it. Whoever watches is asked at each boundary and may raise `Crash`, which no
`except Exception` can hold up. Before a commit that means what a dead process means: nothing of it is kept.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from workers.providers import registry
from workers.providers.base import Health, LaunchRequest, Provider, ProviderInstance

Reach = Callable[[str], None]


class Crash(BaseException):
    """The process is no more."""


class CrashPoints:
    """Counts boundaries; the `at`-th (from 1) ends the process, once. `passed` has the names of those reached."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.passed: list[str] = []

    def __call__(self, boundary: str) -> None:
        self.passed.append(boundary)
        if len(self.passed) == self.at:
            raise Crash(f"{self.at}: {boundary}")


class Watched:
    """A provider whose every call but /ping (which changes nothing anywhere) has a boundary before and after."""

    def __init__(self, provider: Provider, reach: Reach) -> None:
        self.name = provider.name
        self.zones = provider.zones
        self.markets = provider.markets
        self.inner = provider
        self.reach = reach

    @property
    def consistency_window_seconds(self) -> float:
        return self.inner.consistency_window_seconds

    def launch(self, request: LaunchRequest) -> ProviderInstance:
        return self._call("launch", lambda: self.inner.launch(request))

    def find(self, token: str) -> ProviderInstance | None:
        return self._call("find", lambda: self.inner.find(token))

    def describe(self, provider_ids: Collection[str]) -> dict[str, ProviderInstance]:
        return self._call("describe", lambda: self.inner.describe(provider_ids))

    def terminate(self, provider_id: str) -> None:
        return self._call("terminate", lambda: self.inner.terminate(provider_id))

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        return self._call("list_owned", lambda: self.inner.list_owned(owner))

    def ping(self, instance: ProviderInstance, timeout_seconds: float) -> Health:
        return self.inner.ping(instance, timeout_seconds)

    def _call(self, name: str, call: Callable[[], Any]) -> Any:
        assert not connections[DEFAULT_DB_ALIAS].in_atomic_block, f"{name} was called inside a transaction"
        self.reach(f"before {name}")
        try:
            return call()
        finally:
            # A refusal comes back too.
            self.reach(f"after {name}")


@contextmanager
def installed(provider: Provider) -> Iterator[None]:
    """Make `provider` the only one this process has."""
    previous, registry.get = registry.get, lambda name: provider  # type: ignore[assignment]
    try:
        yield
    finally:
        registry.get = previous


@contextmanager
def watched_database(reach: Reach) -> Iterator[None]:
    """Ask `reach` around every commit and every writing statement outside a transaction of this thread's connection."""
    wrapper = connections[DEFAULT_DB_ALIAS]
    commit = wrapper.commit

    def commit_between_boundaries() -> None:
        try:
            reach("before commit")
        except BaseException:
            wrapper.rollback()
            wrapper.run_on_commit.clear()
            raise
        commit()
        try:
            reach("after commit")
        except BaseException:
            wrapper.run_on_commit.clear()
            raise

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if wrapper.in_atomic_block or not sql.startswith(("INSERT", "UPDATE", "DELETE")):
            return run(sql, params, many, context)
        statement = " ".join(sql.split()[:2])
        reach(f"before {statement}")
        result = run(sql, params, many, context)
        reach(f"after {statement}")
        return result

    wrapper.commit = commit_between_boundaries
    try:
        with wrapper.execute_wrapper(execute):
            yield
    finally:
        del wrapper.commit
