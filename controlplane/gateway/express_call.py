"""One call on the express way: its instance is asked, and the whole answer goes to the client, without a task.

chosen, counted --> asked --> whole ----------------------> answered
   |                  |  |--> refused, broken, too late --> the door's error
   | no kept          |  +--> the client is gone ---------> nobody is answered
   | connection       | a large answer, a stream, or one that tells of a session
   v                  v
   the ordinary way, with the call counted where it is
"""

from collections.abc import Awaitable, Callable
from enum import Enum, auto

from controlplane.core import clock
from controlplane.core.errors import ApiError
from controlplane.gateway.app import Gateway
from controlplane.gateway.balancing import ended
from controlplane.gateway.door import Door
from controlplane.gateway.errand import Choice, Deliver, Errand, Head, note_failure
from controlplane.gateway.express import ExpressCycle, ExpressHttpProtocol
from controlplane.gateway.http import ClientGone, Message, Receive, Request, Send, log_refusal
from controlplane.gateway.invoke import ERROR_BODY_BYTES
from controlplane.gateway.model_errors import CUT_OFF, NO_STATUS, model_error
from controlplane.routing.upstream import Exchange, TimedOut
from controlplane.routing.upstream_connection import Incoming
from controlplane.wire.errors import hide


class Next(Enum):
    """What is to be done about an answer."""

    WAIT = auto()
    ANSWER = auto()
    HAND_OVER = auto()
    REFUSE = auto()
    BREAK = auto()


def next_step(incoming: Incoming, head: Head, held_bytes: int) -> Next:
    """What is to be done about an answer, as far as it is there.

    In the order of the ordinary way: what has arrived counts before what has failed after it.
    """
    if incoming.head_seen:
        if head.is_success:
            if incoming.buffered > held_bytes or head.tells_of_sessions:
                return Next.HAND_OVER
            if incoming.complete:
                return Next.ANSWER
        elif incoming.complete or incoming.buffered > ERROR_BODY_BYTES:
            return Next.REFUSE
    return Next.WAIT if incoming.error is None else Next.BREAK


class ExpressCall:
    """One call, from the moment its instance is chosen; `over` is called once it ends or leaves this way."""

    __slots__ = ("_choice", "_cycle", "_door", "_errand", "_exchange", "_gateway", "_over", "_timer", "_way")

    def __init__(
        self,
        way: ExpressHttpProtocol,
        gateway: Gateway,
        door: Door,
        cycle: ExpressCycle,
        chosen: tuple[Errand, Choice],
        over: Callable[[], None],
    ) -> None:
        self._way = way
        self._gateway = gateway
        self._door = door
        self._cycle = cycle
        self._errand, self._choice = chosen
        self._over = over

    def ask(self) -> None:
        """Ask the instance, or have it asked where no connection to it is kept."""
        carrier, target = self._gateway.carrier, self._choice.target
        carrier.balancer.in_flight.begin(target.instance_id)
        self._choice.call.ask()
        exchange = carrier.upstream.begin(target.address, self._errand.ask, self._heard)
        if exchange is None:
            errand, choice = self._errand, self._choice
            self._go_round(lambda request, deliver: carrier.carry(request, errand, deliver, choice.call, choice))
            return
        self._exchange: Exchange = exchange
        self._gateway.under_way.add(self)
        self._timer = self._way.loop.call_later(self._errand.seconds, self._too_late)

    def give_up(self) -> None:
        """The client has gone: end the call, which says nothing about its instance."""
        self._end(ClientGone())

    def cut_off(self) -> None:
        """The gateway ends: what was asked must not be asked again."""
        choice, region = self._choice, self._gateway.carrier.region
        self._refuse(model_error(choice.route, region, NO_STATUS, CUT_OFF))

    def _too_late(self) -> None:
        self._break(TimedOut(f"no answer within {self._errand.seconds:g} s"))

    def _heard(self) -> None:
        """Something of the answer is there, or its connection is gone."""
        try:
            self._act()
        except Exception as fault:  # noqa: BLE001 - the last door: logged by `hide`, answered with an id
            self._refuse(hide(fault, self._cycle.request_id))

    def _act(self) -> None:
        incoming = self._exchange.incoming
        head = Head(incoming.status, incoming.headers)
        step = next_step(incoming, head, self._door.held_bytes(head))
        if step is Next.ANSWER:
            self._answer(head)
        elif step is Next.HAND_OVER:
            self._hand_over()
        elif step is Next.REFUSE:
            self._choice.call.answered()
            self._refuse(self._door.failure(self._choice, head, self._exchange.body()))
        elif step is Next.BREAK and incoming.error is not None:
            self._break(incoming.error)

    def _answer(self, head: Head) -> None:
        choice, cycle = self._choice, self._cycle
        choice.call.answered()
        body = self._exchange.body()
        status, headers = self._door.good(cycle.request_id, choice, head)
        self._end(None)
        self._way.write_whole(cycle, status, headers, body)

    def _break(self, error: Exception) -> None:
        incoming = self._exchange.incoming
        head = Head(incoming.status if incoming.head_seen else NO_STATUS, incoming.headers)
        self._refuse(self._door.broken(self._choice, head, error))

    def _refuse(self, error: ApiError) -> None:
        cycle = self._cycle
        log_refusal(error, cycle.request_id, cycle.path)
        note_failure(self._choice.call, error)
        self._end(error)
        self._way.answer(cycle, self._door.refusal(error, cycle.request_id))

    def _end(self, error: Exception | None) -> None:
        """Count the call as ended, by an answer where there is no error, and let go of its connection."""
        carrier = self._gateway.carrier
        self._timer.cancel()
        self._exchange.close()
        self._gateway.under_way.discard(self)
        ended(carrier.balancer, self._choice.target, error)
        carrier.counts.add(self._choice.call)
        self._over()

    def _hand_over(self) -> None:
        """Let the ordinary way wait for what is to come, and for the client to read."""
        self._timer.cancel()
        self._gateway.under_way.discard(self)
        answer = self._exchange.awaited()
        errand, choice, carrier = self._errand, self._choice, self._gateway.carrier
        left = errand.seconds - (clock.monotonic() - (choice.call.asked or choice.call.started))
        self._go_round(lambda request, deliver: carrier.carry_on(request, errand, deliver, choice, answer, left))

    def _go_round(self, carry: Callable[[Request, Deliver], Awaitable[None]]) -> None:
        """Let the ordinary way carry the call, which stays counted at its instance."""
        gateway, door, request_id = self._gateway, self._door, self._cycle.request_id

        async def carried(scope: Message, receive: Receive, send: Send) -> None:
            request = Request.of(scope, receive, send)
            request.request_id = request_id
            await gateway.guarded(request, door.guarded(request, carry(request, door.deliver_to(request))))

        self._over()
        self._way.start_over(self._cycle, carried)
