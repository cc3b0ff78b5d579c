"""What forms about an endpoint, an instance, a request or a mark are rendered from (see `console.actions_seen`)."""

from django.db.models import Prefetch

from controlplane.catalog.selectors import tags_of
from controlplane.endpoints.models import Deployment, Endpoint, EndpointVariant
from controlplane.fleet.models import CapacityMark, Instance
from controlplane.invocations.models import AsyncInvocation


def of_endpoint(endpoint: Endpoint) -> dict[str, str]:
    """What is wanted of an endpoint, and where it is on the way."""
    deployment = Deployment.objects.filter(endpoint=endpoint).first()
    facts = {
        "endpoint": str(endpoint.id)[:8],
        "status": endpoint.phase,
        "configuration": endpoint.config_name,
        "update to": deployment.config_name if deployment else "none",
        "coming home": f"paused by {endpoint.home_paused_by}" if endpoint.home_paused_at else "not paused",
    }
    for variant in endpoint.variants.filter(revision=endpoint.revision):
        facts[f"variant {variant.name}, count"] = str(variant.desired_count)
        facts[f"variant {variant.name}, weight"] = f"{variant.desired_weight:g}"
    return facts | {f"tag {tag['Key']}": tag["Value"] for tag in tags_of(endpoint.id)}


def of_endpoints(endpoints: list[Endpoint]) -> dict[str, dict[str, str]]:
    """As `of_endpoint` without tags and deployments, for many at once, by id: what a deletion is decided on."""
    rows = Endpoint.objects.filter(pk__in=[row.pk for row in endpoints])
    variants = Prefetch("variants", queryset=EndpointVariant.objects.filter(retired_at=None))
    return {str(row.pk): _short(row) for row in rows.prefetch_related(variants)}


def _short(endpoint: Endpoint) -> dict[str, str]:
    counts = [v for v in endpoint.variants.all() if v.revision == endpoint.revision]
    return {
        "status": endpoint.phase,
        "configuration": endpoint.config_name,
        **{f"variant {variant.name}, count": str(variant.desired_count) for variant in counts},
    }


def of_instance(row: Instance) -> dict[str, str]:
    """How an instance stands, and who wants it gone."""
    return {"stage": row.stage, "asked to leave": f"{row.leave} by {row.leave_asked_by}" if row.leave else "no"}


def of_request(row: AsyncInvocation) -> dict[str, str]:
    """How a request stands."""
    return {
        "state": row.state,
        "failure": row.failure_kind or "none",
        "times put back": str(row.redrives),
    }


def of_mark(row: CapacityMark) -> dict[str, str]:
    """A mark: a newer refusal makes it another one."""
    return {
        "marked": f"{row.marked_at:%Y-%m-%d %H:%M:%S}",
        "closed until": f"{row.until:%Y-%m-%d %H:%M:%S}",
        "refusals in a row": str(row.streak),
    }
