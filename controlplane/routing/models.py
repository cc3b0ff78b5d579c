"""The routing table as stored: one document for each endpoint, written with the facts it is made of."""

from django.db import models


class RoutingSnapshot(models.Model):
    """What the gateways know of one endpoint (`routing.table` has the document's form); no document = a tombstone.

    Keyed by id without a foreign key: the tombstone outlives the endpoint.
    """

    endpoint_id = models.UUIDField(primary_key=True)
    account_id = models.CharField(max_length=12)
    endpoint_name = models.CharField(max_length=63)
    revision = models.BigIntegerField()
    document = models.JSONField(null=True)
    changed_at = models.DateTimeField()
