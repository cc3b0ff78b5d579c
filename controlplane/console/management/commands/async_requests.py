"""`manage.py async_requests search|show|dead|redrive|cancel`: asynchronous requests, as operators see and change them."""

import getpass
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from controlplane.console.requests_named import request_named
from controlplane.core import clock
from controlplane.core.errors import ApiError
from controlplane.core.words import counted
from controlplane.invocations import search, services, timeline
from controlplane.invocations.models import AsyncInvocation, FailureKind, InvocationState
from controlplane.invocations.search import DEAD_STATES, PAGE_DEFAULT, PAGE_LIMIT, Filter
from controlplane.observability.line_command import LineCommand

ONE_REQUEST = "its id, or the InferenceId that the caller was answered with"


class Command(LineCommand):
    """Finds requests, tells what happened to one, counts dead letters by class, puts requests back, cancels them."""

    help = "Search asynchronous requests, show one step by step, count dead letters, redrive one or a class, cancel one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        deeds = parser.add_subparsers(dest="deed", required=True)
        found = deeds.add_parser("search", help="find requests, the latest first")
        _add_filters(found)
        found.add_argument("--state", action="append", default=[], choices=InvocationState.values)
        found.add_argument("--inference-id", default="")
        found.add_argument("--oldest-first", action="store_true")
        _add_limit(found, PAGE_DEFAULT, PAGE_LIMIT)
        shown = deeds.add_parser("show", help="tell everything that happened to a request")
        dead = deeds.add_parser("dead", help="count dead letters by endpoint and kind, and list the oldest")
        _add_filters(dead)
        _add_limit(dead, PAGE_DEFAULT, PAGE_LIMIT)
        back = deeds.add_parser("redrive", help="put back one failed or expired request, or a class of an endpoint's")
        back.add_argument("request", nargs="?", default="", help=f"{ONE_REQUEST}; without it, name an endpoint")
        _add_filters(back)
        _add_limit(back, services.REDRIVE_DEFAULT, services.REDRIVE_LIMIT)
        back.add_argument("--dry-run", action="store_true", help="count only")
        back.add_argument(
            "--time-to-live", type=seconds_to_live, metavar="SECONDS", help="how long it may wait from now on"
        )
        cancelled = deeds.add_parser("cancel", help="cancel a request that waits or runs")
        for deed in (shown, cancelled):
            deed.add_argument("request", help=ONE_REQUEST)
        for deed in (found, shown, dead, back, cancelled):
            deed.add_argument("--account", default=settings.HEADRACE.account_id)

    def handle(self, *args: Any, deed: str, **options: Any) -> None:
        deeds = {
            "search": self._search,
            "show": self._show,
            "dead": self._dead,
            "redrive": self._redrive,
            "cancel": self._cancel,
        }
        try:
            deeds[deed](**options)
        except ApiError as error:
            raise CommandError(error.message) from error

    def _search(self, *, state: list[str], inference_id: str, oldest_first: bool, limit: int, **options: Any) -> None:
        which = _filter(options, tuple(state), inference_id)
        self._list(search.find(which, limit=limit, oldest_first=oldest_first))

    def _show(self, *, request: str, account: str, **options: Any) -> None:
        row = services.get_request(account, request_named(account, request))
        self._line(row)
        self.say(
            f"  endpoint {row.endpoint_name}, InferenceId {row.inference_id}, redriven {counted(row.redrives, 'time')}"
        )
        self.say(f"  payload {row.input_location or 'inline'}, type {row.content_type or 'not given'}")
        self.say(f"  output  {row.output_location}")
        self.say(f"  failure {row.failure_location or 'none is written'}")
        for step in timeline.tell(row.accepted_at, row.timeline):
            self.say(f"  {_moment(step.at)}  attempt {step.attempt}  {step.step:9}  {step.sentence}")
        if timeline.has_gap(row.timeline):
            self.say("  Steps of its middle may have been left out.")

    def _dead(self, *, limit: int, **options: Any) -> None:
        which = _filter(options, DEAD_STATES)
        found = search.counts(which)
        for each in found:
            kind = each.failure_kind or "-"
            since = f"oldest accepted {_moment(each.oldest_at)}"
            self.say(f"{each.endpoint_name:32} {each.state:8} {kind:20} {each.count:8}  {since}")
        if found:
            self.say("")
        self._list(search.find(which, limit=limit, oldest_first=True))

    def _redrive(
        self,
        *,
        request: str,
        limit: int,
        dry_run: bool,
        time_to_live: timedelta | None,
        **options: Any,
    ) -> None:
        actor, now = _actor(), clock.now()
        if bool(request) == bool(options["endpoint"]):
            raise CommandError("Name either one request or an --endpoint.")
        if request:
            if dry_run:
                raise CommandError("--dry-run counts a class; it says nothing of one request.")
            one = request_named(options["account"], request)
            services.redrive(options["account"], one, actor=actor, now=now, time_to_live=time_to_live)
            self.say(f"Request {one} goes back into the queue.")
            return
        done = services.redrive_class(
            _filter(options), limit=limit, actor=actor, now=now, time_to_live=time_to_live, dry_run=dry_run
        )
        verb = "would go" if dry_run else "go"
        self.say(f"{done.redriven} of {counted(done.matching, 'dead letter')} {verb} back into the queue.")
        if done.skipped:
            self.say(f"{done.skipped} cannot: of an earlier endpoint of the name, or without their payload.")

    def _cancel(self, *, request: str, account: str, **options: Any) -> None:
        one = request_named(account, request)
        services.cancel(account, one, actor=_actor(), now=clock.now())
        self.say(f"Request {one} is cancelled.")

    def _list(self, page: search.Page) -> None:
        for row in page.rows:
            self._line(row)
        if not page.rows:
            self.say("No request.")
        if page.next_token is not None:
            self.say("There are more: narrow the search, or raise --limit.")

    def _line(self, row: AsyncInvocation) -> None:
        error = f"  {row.failure_kind}: {row.outcome_text}" if row.failure_kind else ""
        self.say(f"{row.id}  {_moment(row.accepted_at)}  {row.endpoint_name}  {row.state}{error}")


def _add_filters(parser: ArgumentParser) -> None:
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--kind", action="append", default=[], choices=FailureKind.values)
    parser.add_argument("--after", type=iso_time, help="accepted then or later, ISO 8601")
    parser.add_argument("--before", type=iso_time, help="accepted earlier, ISO 8601")


def _add_limit(parser: ArgumentParser, default: int, most: int) -> None:
    def limit(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise ArgumentTypeError(f"must be a whole number from 1 to {most}, not {text!r}")
        return int(text)

    parser.add_argument("--limit", type=limit, metavar=f"1..{most}", default=default)


def _filter(options: Mapping[str, Any], states: tuple[str, ...] = (), inference_id: str = "") -> Filter:
    kinds, times = tuple(options["kind"]), (options["after"], options["before"])
    return Filter(options["account"], options["endpoint"], states, kinds, inference_id, *times)


def iso_time(text: str) -> datetime:
    """An ISO 8601 time; without a zone it is in UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def seconds_to_live(text: str) -> timedelta:
    """A time to live within the bounds of the API."""
    least, most = services.TIME_TO_LIVE_SECONDS
    seconds = int(text)
    if not least <= seconds <= most:
        raise ValueError(text)
    return timedelta(seconds=seconds)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _actor() -> str:
    """Who runs the command, as events tell it."""
    try:
        return f"operator {getpass.getuser()}"
    except (KeyError, OSError):  # a user without a name, as in many containers
        return "an operator"
