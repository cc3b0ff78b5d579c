"""Endpoints, their variants and pools as they are deployed.

An endpoint keeps a copy of its configuration and models, so that deleting either never breaks scaling or healing.
"""

from django.db import models
from django.db.models.functions import Lower

from controlplane.auth.models import Account
from controlplane.endpoints.states import DeploymentStage, Phase


class Endpoint(models.Model):
    """An endpoint: what is wanted, the phase it is in, and who is working on it.

    `generation` rises with every change of what is wanted, so that a controller that planned for the old wish notices.
    `claim_token` and `claim_expires_at` are the lease of the one worker that may act on it; `look_again_at` is when the
    next look is due. `why` is the last plan's sentence. `revision` is the revision in service, and `revisions` the newest
    one there has been. `deployment_config` is the DeploymentConfig last given. While `home_paused_at` is set, by
    `home_paused_by`, no coming-home move starts.
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
    revision = models.PositiveIntegerField(default=1)
    revisions = models.PositiveIntegerField(default=1)
    deployment_config = models.JSONField(null=True)
    generation = models.PositiveBigIntegerField(default=1)
    why = models.TextField(blank=True)
    look_again_at = models.DateTimeField()
    claim_token = models.UUIDField(null=True)
    claim_expires_at = models.DateTimeField(null=True)
    home_paused_at = models.DateTimeField(null=True)
    home_paused_by = models.CharField(max_length=160, blank=True, db_default="")

    class Meta:
        constraints = [models.UniqueConstraint("account", Lower("name"), name="endpoint_name_unique")]
        indexes = [models.Index(fields=["look_again_at"], name="endpoint_due")]

    def __str__(self) -> str:
        return self.name


class EndpointVariant(models.Model):
    """A production variant as deployed in one revision: its wanted and current counts and weights.

    One that `is_shadow` is deployed like any other and gets copies of calls, never a caller's own. `data_capture` is the
    configuration's DataCaptureConfig, or the one retained by an update.

    During a deployment the variants of two revisions stand side by side; `traffic_share` is the part of the variant's
    calls that this one gets, `full_count` the count with which it is to serve alone. `short_since` is since when it lacks
    an instance (kept where pools have patience), `move_not_before` the hold-down after a coming-home move. Once nothing is
    left of a variant of an earlier revision it is `retired_at` and no longer looked at; its row keeps what it cost.

    `rollback_count` is the count to return to when a capacity change fails; `provision_deadline` ends the search for
    capacity of the running operation (none in steady state: healing never gives up). `refusals` counts rounds in a row
    in which every pool was out of reach, `start_failures` instances in a row that never came up; both drive back-off
    until `launch_not_before`.
    """

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="variants")
    revision = models.PositiveIntegerField(default=1)
    config_name = models.CharField(max_length=63, default="")
    copied_at = models.DateTimeField()
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=63)
    is_shadow = models.BooleanField(default=False)
    data_capture = models.JSONField(null=True)
    routing_strategy = models.CharField(max_length=32)
    prefix_length = models.PositiveIntegerField(null=True)
    concurrency_threshold = models.PositiveIntegerField(null=True)
    desired_count = models.PositiveIntegerField()
    current_count = models.PositiveIntegerField(default=0)
    full_count = models.PositiveIntegerField(default=0)
    rollback_count = models.PositiveIntegerField(null=True)
    desired_weight = models.FloatField()
    current_weight = models.FloatField()
    traffic_share = models.FloatField(default=1.0)
    provision_timeout_seconds = models.PositiveIntegerField()
    startup_timeout_seconds = models.PositiveIntegerField()
    download_timeout_seconds = models.PositiveIntegerField()
    provision_deadline = models.DateTimeField(null=True)
    refusals = models.PositiveIntegerField(default=0)
    start_failures = models.PositiveIntegerField(default=0)
    start_failure_reason = models.TextField(blank=True)
    launch_not_before = models.DateTimeField(null=True)
    short_since = models.DateTimeField(null=True)
    move_not_before = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["revision", "position"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "revision", "name"], name="endpoint_variant_name_unique")
        ]

    def __str__(self) -> str:
        return f"{self.name} of revision {self.revision}"


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

    def __str__(self) -> str:
        return f"priority {self.priority}, {self.instance_type}"


class Deployment(models.Model):
    """The deployment that moves an endpoint to the revision `to_revision`; the row goes when it has ended.

    `strategy` is the DeploymentConfig as the planner reads it (see `endpoints.strategies`), `alarms` the names of the
    alarms that undo it. `config_name`, `async_inference` and `shows_pools` become the endpoint's when it succeeds.
    `share` of the calls goes to the new revision. `deadline` ends it, whatever it waits for.
    """

    endpoint = models.OneToOneField(Endpoint, on_delete=models.CASCADE, related_name="deployment")
    to_revision = models.PositiveIntegerField()
    config_name = models.CharField(max_length=63)
    async_inference = models.JSONField(null=True)
    shows_pools = models.BooleanField()
    strategy = models.JSONField()
    alarms = models.JSONField(default=list)
    stage = models.CharField(max_length=16, choices=DeploymentStage.choices, default=DeploymentStage.PENDING)
    stage_since = models.DateTimeField()
    step = models.PositiveIntegerField(default=1)
    rolled_back_from = models.PositiveIntegerField(default=0)
    share = models.FloatField(default=0.0)
    started_at = models.DateTimeField()
    deadline = models.DateTimeField(null=True)
    failure_reason = models.CharField(max_length=1024, blank=True)
    why = models.TextField(blank=True)
