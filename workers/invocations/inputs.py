"""Fetching the payload of a request that names an InputLocation, into a file, with bounded memory.

    InputFault   a final outcome of the request: missing, refused or too large
    InputAway    nothing can be said now: to be tried again

An https:// location is fetched from the very address that was checked: the name is resolved once, every address it leads
to must be public, and the connection is made to one of them by its number, with the name proven by the certificate. So a
name that changes between the check and the connection (DNS rebinding) gains nothing. Redirects are not followed.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import IO
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, SSLError

from controlplane.core import clock
from controlplane.invocations.inputs import HTTPS_PORT, refusal, target_of
from workers.invocations.addresses import is_public
from workers.invocations.plan import Kind
from workers.invocations.store import Store, StoreAway, StoreMissing, StoreRefused

CHUNK_BYTES = 256 * 1024
THREADS = 16
CONNECT_SECONDS = 5.0
IDLE_SECONDS = 30.0
"""How long a server may pause within a payload."""

WHOLE_SECONDS = 900.0
"""How long a whole payload may take."""

_AWAY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_MISSING_STATUSES = frozenset({404, 410})


class InputFault(Exception):
    """The payload will never be had; the text is for the caller."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class InputAway(Exception):
    """The payload cannot be had now; the text is for the log and the timeline."""


def resolve(host: str) -> list[str]:
    """The addresses of a name, in the resolver's order."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True)
class Https:
    """A client for https:// locations on `hosts`; `resolve`, `may_connect` and `port` are the network's, or a test's."""

    hosts: Collection[str]
    resolve: Callable[[str], list[str]] = resolve
    may_connect: Callable[[str], bool] = is_public
    port: int = HTTPS_PORT

    def chunks(self, location: str) -> Generator[bytes, None, None]:
        """The object's bytes; raises InputFault or InputAway."""
        refused = refusal(location, self.hosts)
        if refused:
            raise InputFault(Kind.INPUT_REFUSED, refused)
        parts = urlsplit(location)
        host = parts.hostname or ""
        with closing(self._open(host, self._addresses(host), target_of(parts))) as answer:
            _check_status(answer.status, host)
            try:
                # What has arrived, however little: a read that waits for a whole chunk would let a host that drips keep
                # this thread for as long as it likes.
                while chunk := answer.read1(CHUNK_BYTES, decode_content=False):
                    yield chunk
            except HTTPError as error:
                raise InputAway(f"{host} broke off: {error}") from error

    def _addresses(self, host: str) -> Sequence[str]:
        try:
            addresses = self.resolve(host)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:
                raise InputFault(Kind.INPUT_MISSING, f"There is no host {host}.") from error
            raise InputAway(f"the name {host} cannot be resolved: {error}") from error
        if not addresses or not all(self.may_connect(address) for address in addresses):
            text = f"{host} leads to an address that is not of the public internet; nothing is fetched from there."
            raise InputFault(Kind.INPUT_REFUSED, text)
        return addresses

    def _open(self, host: str, addresses: Sequence[str], target: str) -> urllib3.BaseHTTPResponse:
        """The head of the answer, from the first of the checked addresses that takes a connection."""
        faults = []
        for address in addresses:
            try:
                return self._get(host, address, target)
            except SSLError as error:
                raise InputFault(Kind.INPUT_REFUSED, f"{host} is not who it says it is: {error}") from error
            except HTTPError as error:
                faults.append(str(error))
        raise InputAway(f"{host} cannot be reached: {'; '.join(faults)}")

    def _get(self, host: str, address: str, target: str) -> urllib3.BaseHTTPResponse:
        pool = urllib3.HTTPSConnectionPool(
            address,
            self.port,
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=IDLE_SECONDS),
            maxsize=1,
            retries=False,
            ssl_context=ssl.create_default_context(),
            server_hostname=host,
            assert_hostname=host,
        )
        headers = {"Host": host, "Accept-Encoding": "identity", "User-Agent": "Headrace"}
        return pool.urlopen(
            "GET", target, headers=headers, redirect=False, preload_content=False, decode_content=False, retries=False
        )


def _check_status(status: int, host: str) -> None:
    if status == 200:
        return
    if status in _AWAY_STATUSES:
        raise InputAway(f"{host} answered {status}")
    if status in _MISSING_STATUSES:
        raise InputFault(Kind.INPUT_MISSING, f"There is no object at the InputLocation: {host} answered {status}.")
    if 300 <= status < 400:
        text = f"The InputLocation leads elsewhere ({host} answered {status}), and redirects are not followed."
        raise InputFault(Kind.INPUT_REFUSED, text)
    raise InputFault(Kind.INPUT_REFUSED, f"The InputLocation cannot be read: {host} answered {status}.")


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="inputs")


@dataclass(frozen=True)
class Inputs:
    """Fetches payloads of at most `limit_bytes`, THREADS from the store and as many from hosts at a time.

    Hosts that are slow keep only those waiting whose payloads are on hosts.
    """

    store: Store
    https: Https
    limit_bytes: int
    whole_seconds: float = WHOLE_SECONDS
    threads: ThreadPoolExecutor = field(default_factory=_threads)
    host_threads: ThreadPoolExecutor = field(default_factory=_threads)

    async def fetch(self, location: str, into: IO[bytes]) -> int:
        """Write the payload into `into`, and leave that at its start; returns its size in bytes.

        Blocking work runs in a thread, which ends within a chunk of the caller's cancellation.
        """
        stopping = _Flag()
        try:
            threads = self.threads if location.startswith("s3://") else self.host_threads
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(threads, self._fetch, location, into, stopping)
        finally:
            stopping.is_set = True

    def _fetch(self, location: str, into: IO[bytes], stopping: "_Flag") -> int:
        size, until = 0, clock.monotonic() + self.whole_seconds
        with closing(self._chunks(location)) as chunks:
            for chunk in chunks:
                size += len(chunk)
                if size > self.limit_bytes:
                    text = f"The payload at the InputLocation is larger than the {self.limit_bytes} bytes allowed."
                    raise InputFault(Kind.INPUT_TOO_LARGE, text)
                if clock.monotonic() > until:
                    raise InputAway(f"the payload did not arrive within {self.whole_seconds:g} s")
                if stopping.is_set:
                    raise InputAway("nobody waits for it any more")
                into.write(chunk)
        into.seek(0)
        return size

    def _chunks(self, location: str) -> Generator[bytes, None, None]:
        return self._of_store(location) if location.startswith("s3://") else self.https.chunks(location)

    def _of_store(self, location: str) -> Generator[bytes, None, None]:
        try:
            yield from self.store.chunks(location, CHUNK_BYTES)
        except StoreMissing as error:
            raise InputFault(Kind.INPUT_MISSING, f"There is no object at the InputLocation {location}.") from error
        except StoreRefused as error:
            raise InputFault(Kind.INPUT_REFUSED, f"The InputLocation cannot be read: {error}") from error
        except StoreAway as error:
            raise InputAway(str(error)) from error


@dataclass
class _Flag:
    is_set: bool = False
