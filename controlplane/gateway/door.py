"""What a door does whose calls may go the express way (see `express_calls`), on both ways alike."""

from collections.abc import Awaitable
from typing import Protocol

from controlplane.core.errors import ApiError
from controlplane.gateway.errand import Choice, Deliver, Errand, Head
from controlplane.gateway.http import Request, WholeRequest
from controlplane.routing.upstream import Headers
from controlplane.wire.errors import WireResponse

NOTHING = -1
"""Bytes held back of an answer that is passed on as it comes."""


class Door(Protocol):
    """One of the doors: InvokeEndpoint's, OpenAI's."""

    def at_once(self, asked: WholeRequest) -> Errand | None:
        """What is to be carried, where memory is enough to say so; None, or an ApiError, for all else."""

    def held_bytes(self, head: Head) -> int:
        """How much of an answer is held back until it is whole."""

    def good(self, request_id: str, choice: Choice, head: Head) -> tuple[int, Headers]:
        """The status and the headers, its length aside, of a good answer."""

    def failure(self, choice: Choice, head: Head, said: bytes) -> ApiError:
        """The error for a container that has answered, but not well, and said this."""

    def broken(self, choice: Choice, head: Head, error: Exception) -> ApiError:
        """The error for an answer that broke off, or did not come in time; a head without a status never came."""

    def refusal(self, error: ApiError, request_id: str) -> WireResponse:
        """The answer that tells of an error."""

    def deliver_to(self, request: Request) -> Deliver:
        """Delivers an answer to this request's client, piece by piece where need be."""

    async def guarded(self, request: Request, work: Awaitable[None]) -> None:
        """Do the work of a request; an error before the first byte is answered in the door's form."""
