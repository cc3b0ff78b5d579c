"""Endpoints, their variants and pools as they are deployed.

An endpoint keeps a copy of its configuration and models, so that deleting either never breaks scaling or healing.
"""

from django.db import models
from django.db.models.functions import Lower

from controlplane.auth.models import Account
from controlplane.endpoints.states import Phase


class Endpoint(models.Model):
    """An endpoint: what is wanted, the phase it is in, and who is working on it.

    `generation` rises with every change of what is wanted, so that a controller that planned for the old wish notices.
    `claim_token` and `claim_expires_at` are the lease of the one worker that may act on it; `look_again_at` is when the
    next look is due. `why` is the last plan's sentence.
    """

    id = models.UUIDField(primary_key=True)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    config_name = models.CharField(max_length=63)
    is_async = models.BooleanField()
    async_inference = models.JSONField(null=True)
    shows_pools = models.BooleanField()
    phase = models.CharField(max_length=24, choices=Phase.choices)
    failure_reason = models.CharField(max_length=1024, blank=True)
    created_at = models.DateTimeField()
    modified_at = models.DateTimeField()
    generation = models.PositiveBigIntegerField(default=1)
    why = models.TextField(blank=True)
    look_again_at = models.DateTimeField()
    claim_token = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint("account", Lower("name"), name="endpoint_name_unique")]
        indexes = [models.Index(fields=["look_again_at"], name="endpoint_due")]

    def __str__(self) -> str:
        return self.name


class EndpointVariant(models.Model):
    """A production variant as deployed: its wanted and current counts and weights.

    `rollback_count` is the count to return to when a capacity change fails; `provision_deadline` ends the search for
    capacity of the running operation (none in steady state: healing never gives up). `refusals` counts rounds in a row
    in which every pool was out of reach, `start_failures` instances in a row that never came up; both drive back-off
    until `launch_not_before`.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="variants")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=63)
    routing_strategy = models.CharField(max_length=32)
    desired_count = models.PositiveIntegerField()
    current_count = models.PositiveIntegerField(default=0)
    rollback_count = models.PositiveIntegerField(null=True)
    desired_weight = models.FloatField()
    current_weight = models.FloatField()
    provision_timeout_seconds = models.PositiveIntegerField()
    startup_timeout_seconds = models.PositiveIntegerField()
    download_timeout_seconds = models.PositiveIntegerField()
    provision_deadline = models.DateTimeField(null=True)
    refusals = models.PositiveIntegerField(default=0)
    start_failures = models.PositiveIntegerField(default=0)
    start_failure_reason = models.TextField(blank=True)
    launch_not_before = models.DateTimeField(null=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["endpoint", "name"], name="endpoint_variant_name_unique")]


class VariantPool(models.Model):
    """An instance pool as deployed: its type, priority, the container it runs, and how many instances serve from it."""

    variant = models.ForeignKey(EndpointVariant, on_delete=models.CASCADE, related_name="pools")
    position = models.PositiveSmallIntegerField()
    priority = models.PositiveSmallIntegerField()
    instance_type = models.CharField(max_length=64)
    model_name = models.CharField(max_length=63)
    container = models.JSONField()
    current_count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["priority", "position"]
