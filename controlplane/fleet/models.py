"""Instances, launch attempts, capacity marks, and the gateways' reports."""

from django.db import models

from controlplane.endpoints.models import Endpoint, EndpointVariant, VariantPool
from controlplane.fleet.states import AttemptStage, InstanceStage, Leave


class Instance(models.Model):
    """One instance, known by its provider's id together with its launch time (ids alone may be used again).

    `stage` has a clock (`stage_since`) and a reason. Rows of ended instances stay until their variant is deleted.
    `hourly_price` (US dollars) is the price known at its launch. `replaces` is the instance whose place it is to take (a
    coming-home move), `ends_at` when the provider announced to take it away. `leave` is how an operator wants it gone,
    `leave_asked_by` who.
    """

    id = models.UUIDField(primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="instances")
    variant = models.ForeignKey(EndpointVariant, on_delete=models.CASCADE, related_name="instances")
    pool = models.ForeignKey(VariantPool, on_delete=models.CASCADE, related_name="instances")
    provider = models.CharField(max_length=32)
    provider_id = models.CharField(max_length=128)
    token = models.CharField(max_length=64)
    instance_type = models.CharField(max_length=64)
    zone = models.CharField(max_length=64)
    market = models.CharField(max_length=16, default="on-demand")
    hourly_price = models.DecimalField(max_digits=12, decimal_places=4, null=True)
    address = models.CharField(max_length=255, blank=True)
    launched_at = models.DateTimeField()
    stage = models.CharField(max_length=16, choices=InstanceStage.choices)
    stage_since = models.DateTimeField()
    reason = models.TextField(blank=True)
    ready_at = models.DateTimeField(null=True)
    failed_pings = models.PositiveIntegerField(default=0)
    terminate_asked_at = models.DateTimeField(null=True)
    replaces = models.UUIDField(null=True)
    ends_at = models.DateTimeField(null=True)
    leave = models.CharField(max_length=8, choices=Leave.choices, blank=True, db_default="")
    leave_asked_at = models.DateTimeField(null=True)
    leave_asked_by = models.CharField(max_length=160, blank=True, db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "provider_id", "launched_at"], name="instance_identity"),
            models.UniqueConstraint(fields=["token"], name="instance_token_unique"),
        ]
        indexes = [
            models.Index(fields=["endpoint", "stage"], name="instance_by_endpoint"),
            models.Index(fields=["stage", "stage_since"], name="instance_by_stage"),
            models.Index(fields=["launched_at"], name="instance_by_launch"),
        ]

    def __str__(self) -> str:
        return f"{self.instance_type} {str(self.id)[:8]}"


class LaunchAttempt(models.Model):
    """The intent to start one instance, committed before the provider is called and closed after it answered.

    A crash in between leaves it open; whoever finds it asks the provider with the same token.
    """

    token = models.CharField(max_length=64, primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="attempts")
    variant = models.ForeignKey(EndpointVariant, on_delete=models.CASCADE, related_name="attempts")
    pool = models.ForeignKey(VariantPool, on_delete=models.CASCADE, related_name="attempts")
    provider = models.CharField(max_length=32)
    zone = models.CharField(max_length=64)
    market = models.CharField(max_length=16, default="on-demand")
    hourly_price = models.DecimalField(max_digits=12, decimal_places=4, null=True)
    instance_type = models.CharField(max_length=64)
    replaces = models.UUIDField(null=True)
    stage = models.CharField(max_length=16, choices=AttemptStage.choices)
    is_probe = models.BooleanField(default=False)
    error_kind = models.CharField(max_length=16, blank=True)
    message = models.TextField(blank=True)
    called_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["endpoint", "stage"], name="attempt_by_endpoint"),
            models.Index(fields=["provider", "zone", "instance_type", "called_at"], name="attempt_by_offering"),
        ]

    def __str__(self) -> str:
        return f"{self.instance_type} in {self.zone}, {self.called_at:%Y-%m-%d %H:%M:%S} UTC"


class CapacityMark(models.Model):
    """What is remembered of a refusal, for all endpoints: this type in this zone was out of reach.

    Until `until` launches skip it; after that exactly one launch at a time probes it (`probe_token` until
    `probe_expires_at`). A success deletes the mark; another refusal lengthens it with `streak`.
    """

    provider = models.CharField(max_length=32)
    region = models.CharField(max_length=32)
    zone = models.CharField(max_length=64)
    instance_type = models.CharField(max_length=64)
    market = models.CharField(max_length=16, default="on-demand")
    kind = models.CharField(max_length=16)
    message = models.TextField()
    marked_at = models.DateTimeField()
    until = models.DateTimeField()
    streak = models.PositiveIntegerField(default=1)
    seen_by = models.CharField(max_length=63)
    probe_token = models.CharField(max_length=64, blank=True)
    probe_expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "region", "zone", "instance_type", "market"], name="capacity_mark_key"
            )
        ]

    def __str__(self) -> str:
        return f"{self.instance_type} in {self.zone} ({self.market})"


class GatewayHeartbeat(models.Model):
    """What one gateway process says every second.

    `draining` maps the id of each instance that its table shows as draining to the calls still in flight there: an
    instance is drained when every live gateway lists it with 0. `in_flight` has the calls of all busy instances.
    """

    gateway_id = models.CharField(max_length=64, primary_key=True)
    seen_at = models.DateTimeField()
    table_age_seconds = models.FloatField()
    draining = models.JSONField(default=dict)
    in_flight = models.JSONField(default=dict)
