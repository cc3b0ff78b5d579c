"""What one account has, made whole and looked at whole."""

from django.conf import settings

from controlplane.auth.models import AccessKey, ApiToken
from controlplane.catalog.limits import limits_of
from controlplane.endpoints.models import Endpoint
from controlplane.invocations.models import AsyncInvocation
from controlplane.orphans.models import Orphan
from tests.controlplane.invocations.letters import endpoint, letter
from tests.controlplane.rest.conftest import Ask
from tests.workers.plane import FIRST, Plane

ACCOUNT = settings.HEADRACE.account_id


def rows_of(plane: Plane, name: str, ask: Ask) -> dict[str, str]:
    """Rows of every kind that belong to the account, by the placeholder of a path that names them."""
    assert ask("PUT", f"/api/v1/quotas/{FIRST}", {"Limit": 9}).status == 200
    waiting = endpoint(plane.clock.now(), f"{name}-async")
    return {
        **dict.fromkeys(("name", "EndpointName", "EndpointConfigName", "ModelName"), name),
        "access_key_id": ask("POST", "/api/v1/access-keys").body["AccessKeyId"],
        "instance_id": ask("GET", f"/api/v1/endpoints/{name}/instances").body["Instances"][0]["InstanceId"],
        "instance_type": FIRST,
        "mark_id": "1",
        "orphan_id": str(orphan(plane, name).pk),
        "request_id": str(letter(waiting, plane.clock.now()).id),
        "token_id": ask("POST", "/api/v1/tokens", {"Name": name}).body["TokenId"],
    }


def orphan(plane: Plane, name: str = "", **facts: object) -> Orphan:
    """An orphan of the account's endpoint of this name, or one of which nothing is known."""
    now = plane.clock.now()
    known = dict.fromkeys(("launched_at", "found_at", "seen_at", "state_since"), now)
    if name:
        row = Endpoint.objects.get(name=name)
        known |= {"account_id": ACCOUNT, "endpoint_id": row.id, "endpoint_name": name}
    known |= {"provider": "simulated", "provider_id": "i-1", "instance_type": FIRST, "zone": "simulated-a"}
    return Orphan.objects.create(**{**known, **facts})


def fingerprint() -> list[object]:
    """What the account has, as far as somebody could change it."""
    return [
        list(Endpoint.objects.filter(account_id=ACCOUNT).order_by("name").values_list("name", "phase", "generation")),
        list(AccessKey.objects.filter(account_id=ACCOUNT).order_by("pk").values_list("pk", "is_active")),
        list(ApiToken.objects.filter(account_id=ACCOUNT).order_by("pk").values_list("pk", "revoked_at")),
        list(AsyncInvocation.objects.filter(account_id=ACCOUNT).values_list("state", "attempts")),
        list(Orphan.objects.filter(account_id=ACCOUNT).values_list("pk", "state", "wish")),
        limits_of(ACCOUNT),
    ]
