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


class Session(models.Model):
    """Where a sticky session is (see `gateway.sessions`), written and read by the gateways; gone once it has expired."""

    pk = models.CompositePrimaryKey("endpoint_id", "session_id")
    endpoint_id = models.UUIDField()
    session_id = models.CharField(max_length=256)
    instance_id = models.CharField(max_length=64)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["expires_at"], name="session_expires")]
