"""The express way of calls that are answered whole: from the bytes of a call to its instance and back, without a task.

    whole in one read, plain POST, caller known, endpoint serves, no session, record or copy
      | no                            | an instance is chosen
      v                               v
    the ordinary way              `express_call`

It decides nothing by itself: the door (InvokeEndpoint's, OpenAI's) and `Carrier.at_once` check and choose with the
functions of the ordinary way, and whatever is not plainly good is given to that, which waits, looks up, refuses and
explains. A task, a cycle and a dozen awaits a call cost several times what the checks do.
"""

import asyncio
import re
from typing import cast

from controlplane.core import clock
from controlplane.gateway.app import Gateway
from controlplane.gateway.counting import Call
from controlplane.gateway.door import Door
from controlplane.gateway.errand import Choice, Errand
from controlplane.gateway.express import ENDPOINT, ExpressCycle, ExpressHttpProtocol
from controlplane.gateway.express_call import ExpressCall
from controlplane.gateway.http import WholeRequest, texts_of


class ExpressCallProtocol(ExpressHttpProtocol):
    """Takes the calls that can be taken at once; everything else as its base does."""

    _call: ExpressCall | None = None
    """The call under way on this connection."""

    _path = re.compile(ENDPOINT + rb"(async-invocations|invocations|openai/v1/(?:chat/)?completions)")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._gateway = cast(Gateway, self.config.app)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._call is not None:
            self._call.give_up()

    def _take(self, body: bytes) -> bool:
        return super()._take(body) if self._operation == "async-invocations" else self._take_call(body)

    def _take_call(self, body: bytes) -> bool:
        """Have the call carried, if it is plainly good."""
        call = Call(clock.monotonic())
        asked = WholeRequest(self.url.decode(), self._endpoint, self._operation, texts_of(self.headers), body)
        door: Door = self._gateway.invoker if self._operation == "invocations" else self._gateway.openai
        chosen = self._chosen(door, asked, call)
        if chosen is None:
            return False
        request_id = self._invoker.draw.text()
        cycle = ExpressCycle(self.scope, asked.path, b"", request_id, keep_alive=self.parser.should_keep_alive())
        self.cycle = cycle  # type: ignore[assignment]
        self._call = ExpressCall(self, self._gateway, door, cycle, chosen, self._over)
        self._call.ask()
        return True

    def _chosen(self, door: Door, asked: WholeRequest, call: Call) -> tuple[Errand, Choice] | None:
        """What is to be carried, and where; None where the ordinary way has to look at it."""
        try:
            errand = door.at_once(asked)
            choice = None if errand is None else self._gateway.carrier.at_once(errand, call)
        except Exception:  # noqa: BLE001 - the ordinary way meets the same error, and explains it
            return None
        return None if errand is None or choice is None else (errand, choice)

    def _over(self) -> None:
        self._call = None
