"""EC2 with the face of a provider.

What each answer to a launch comes to:

    an instance that starts or runs            returned
    an instance that has ended                 returned as EXITED: the token had its launch, this is what became of it
    an instance that ended for want of         CAPACITY or QUOTA, as if the call had been refused
      capacity before it ran
    200 without an instance                    AMBIGUOUS: asked again by the token
    IdempotentParameterMismatch                a launch by this token was asked for with other settings: its instance if
                                               listings show it, AMBIGUOUS while they may lag, then as a spent token
    IdempotentInstanceTerminated               a spent token: THROTTLED, by which the next attempt has a new one
    anything else                              see `codes`
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workers.providers.base import Health, ProviderInstance
from workers.providers.base import LaunchRequest as Request
from workers.providers.ec2 import codes, instances
from workers.providers.ec2.calls import CallError, connect, pages, told_as_kinds
from workers.providers.ec2.recent import Recent
from workers.providers.ec2.request import ON_DEMAND, TAG_OWNER, TAG_TOKEN, parameters, to_tag
from workers.providers.ec2.settings import Settings
from workers.providers.ec2.watch import Watch
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.outside import outside_transactions
from workers.providers.ping import ping

FILTER_VALUES_LIMIT = 200
"""So many values EC2 takes in one filter."""

_LISTED_STATES = ["pending", "running", "stopping", "stopped", "shutting-down"]

log = logging.getLogger(__name__)


@outside_transactions
class Ec2Provider:
    """Instances of EC2; see `workers.providers.base.Provider` for the contract."""

    name = "ec2"
    markets: tuple[str, ...] = ("on-demand", "spot")

    def __init__(self, data_dir: Path, env: Mapping[str, str]) -> None:
        """Raises ValueError for HEADRACE_EC2_* settings that are missing or make no sense. Nothing is sent yet."""
        del data_dir
        self._settings = Settings.read(env)
        self.zones = self._settings.zones
        self.consistency_window_seconds = self._settings.consistency_window_seconds
        self._client = connect(self._settings)
        self._watch = Watch(self._client)
        self._launched = Recent(self.consistency_window_seconds)
        self._mismatched = Recent(self.consistency_window_seconds)

    def launch(self, request: Request) -> ProviderInstance:
        asked = parameters(request, self._settings)
        what = request.instance_type if request.market == ON_DEMAND else f"{request.instance_type} as {request.market}"
        try:
            with told_as_kinds(what):
                answer = self._client.run_instances(**asked)
        except CallError as error:
            return self._launched_before(request, error, what)
        if not answer.get("Instances"):
            raise ProviderError(ErrorKind.AMBIGUOUS, f"EC2 accepted {what} and named no instance.")
        return self._launched_as(answer["Instances"][0], what)

    def find(self, token: str) -> ProviderInstance | None:
        found = self._of_token(token)
        return self._show(found[0]) if found else None

    def describe(self, provider_ids: Collection[str]) -> dict[str, ProviderInstance]:
        # By filter: the call that names ids is refused as a whole when one of them is unknown, or not yet known.
        ids = sorted({each for each in provider_ids if instances.is_id(each)})
        items = [
            item
            for start in range(0, len(ids), FILTER_VALUES_LIMIT)
            for item in self._list([{"Name": "instance-id", "Values": ids[start : start + FILTER_VALUES_LIMIT]}])
            if instances.status_of(item) is not None
        ]
        return {shown.provider_id: shown for shown in self._with_notices(items)}

    def terminate(self, provider_id: str) -> None:
        if not instances.is_id(provider_id):
            raise ProviderError(ErrorKind.GONE, f"{provider_id!r} is no EC2 instance.")
        try:
            with told_as_kinds(f"the end of {provider_id}"):
                answer = self._client.terminate_instances(InstanceIds=[provider_id])
        except CallError as error:
            if error.kind is ErrorKind.GONE and self._launched.is_fresh(provider_id):
                message = f"EC2 does not know {provider_id} yet; its end is asked for again."
                raise ProviderError(ErrorKind.THROTTLED, message) from error
            raise
        changes = answer.get("TerminatingInstances", [])
        if changes and changes[0].get("PreviousState", {}).get("Name") == "terminated":
            raise ProviderError(ErrorKind.GONE, f"{provider_id} has been terminated already.")

    def list_owned(self, owner: str) -> list[ProviderInstance]:
        filters = [
            {"Name": f"tag:{TAG_OWNER}", "Values": [to_tag(owner)]},
            {"Name": "instance-state-name", "Values": _LISTED_STATES},
        ]
        return [self._show(item) for item in self._list(filters)]

    def ping(self, instance: ProviderInstance, timeout_seconds: float) -> Health:
        return ping(instance.address, timeout_seconds)

    def _launched_as(self, item: Mapping[str, Any], what: str) -> ProviderInstance:
        """The instance that a launch came to; raises CAPACITY or QUOTA when EC2 has ended it before it ran."""
        code = instances.reason_code(item)
        kind = codes.kind_of_end(code)
        if kind is not None and item["State"]["Name"] in ("shutting-down", "terminated"):
            raise ProviderError(kind, f"EC2 ended {what} before it ran: {code}.")
        self._launched.note(item["InstanceId"])
        return self._show(item)

    def _launched_before(self, request: Request, error: CallError, what: str) -> ProviderInstance:
        """What a refusal on account of the token comes to; raises `error` itself when it was another one."""
        if error.code not in (codes.OTHER_PARAMETERS, codes.TOKEN_SPENT):
            raise error
        found = self._of_token(request.token)
        if found:
            return self._launched_as(found[0], what)
        if error.code == codes.OTHER_PARAMETERS:
            self._mismatched.note(request.token)
            if self._mismatched.is_fresh(request.token):
                message = "A launch by this token was asked for with other settings, and no listing shows it yet."
                raise ProviderError(ErrorKind.AMBIGUOUS, message) from error
        message = "The instance that this token launched has ended; the next attempt has another token."
        raise ProviderError(ErrorKind.THROTTLED, message) from error

    def _of_token(self, token: str) -> list[Mapping[str, Any]]:
        """The instance of this token as EC2 tells it, if it is not absent; a token has one at most."""
        found = self._list([{"Name": f"tag:{TAG_TOKEN}", "Values": [to_tag(token)]}])
        return [item for item in found if instances.status_of(item) is not None]

    def _list(self, filters: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
        reservations = pages(self._client.describe_instances, "Reservations", Filters=filters)
        return [item for reservation in reservations for item in reservation.get("Instances", [])]

    def _with_notices(self, items: list[Mapping[str, Any]]) -> Iterable[ProviderInstance]:
        if not items:
            return
        has_spot = any(item.get("InstanceLifecycle") == "spot" for item in items)
        notices = self._watch.notices(has_spot=has_spot)
        for item in items:
            shown = self._show(item)
            notice = notices.get(shown.provider_id)
            yield replace(shown, notice=notice.why, ends_at=notice.ends_at) if notice else shown

    def _show(self, item: Mapping[str, Any]) -> ProviderInstance:
        settings = self._settings
        console = self._last_words(item["InstanceId"]) if instances.has_last_words(item) else ""
        return instances.show(item, port=settings.port, is_public=settings.has_public_address, console=console)

    def _last_words(self, provider_id: str) -> str:
        """The console of a machine that shut itself down; empty when EC2 does not give it."""
        try:
            with told_as_kinds(f"the console of {provider_id}"):
                answer = self._client.get_console_output(InstanceId=provider_id)
        except CallError as error:
            log.warning("why %s ended could not be read: %s", provider_id, error)
            return ""
        return str(answer.get("Output", ""))
