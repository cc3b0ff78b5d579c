"""The counts that DescribeEndpoint shows, written by the workers so that the API never counts instances."""

from django.db.models import Count

from controlplane.endpoints.models import Endpoint, EndpointVariant, VariantPool
from controlplane.endpoints.selectors import standing_variants
from controlplane.fleet.models import Instance
from controlplane.fleet.states import InstanceStage


def recount(endpoint: Endpoint) -> None:
    """Store how many instances serve, by pool and by variant, where that changed; a whole variant is short no more."""
    ready = Instance.objects.filter(endpoint=endpoint, stage=InstanceStage.READY)
    by_pool = dict(ready.values_list("pool_id").annotate(count=Count("id")))
    for variant in standing_variants(endpoint):
        total = 0
        for pool in variant.pools.all():
            count = by_pool.get(pool.id, 0)
            total += count
            if count != pool.current_count:
                VariantPool.objects.filter(pk=pool.pk).update(current_count=count)
        if total != variant.current_count:
            EndpointVariant.objects.filter(pk=variant.pk).update(current_count=total)
        if variant.short_since is not None and total >= variant.desired_count:
            EndpointVariant.objects.filter(pk=variant.pk).update(short_since=None)
