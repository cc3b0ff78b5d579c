"""Models, endpoint configurations with their variants and instance pools, and tags.

A configuration is immutable. Its rows are what the control loops copy when an endpoint is created; `request` is the
request as it was accepted, echoed by the Describe operations.
"""

from django.db import models
from django.db.models.functions import Lower

from controlplane.auth.models import Account


class Named(models.Model):
    """A resource of one account with a name that is unique in it, whatever the case."""

    id = models.UUIDField(primary_key=True)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=63)
    request = models.JSONField()
    created_at = models.DateTimeField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Model(Named):
    """A model: a container image, its environment and where its data lie."""

    class Meta:
        constraints = [models.UniqueConstraint("account", Lower("name"), name="model_name_unique")]

    @property
    def container(self) -> dict[str, object]:
        """The one container definition, in the API's member names."""
        return self.request.get("PrimaryContainer") or self.request["Containers"][0]


class EndpointConfig(Named):
    """An endpoint configuration: one or more production variants, and how the endpoint is invoked."""

    class Meta:
        constraints = [models.UniqueConstraint("account", Lower("name"), name="endpoint_config_name_unique")]

    @property
    def async_inference(self) -> dict[str, object] | None:
        """The AsyncInferenceConfig as requested; its presence makes an endpoint asynchronous only."""
        return self.request.get("AsyncInferenceConfig")

    @property
    def data_capture(self) -> dict[str, object] | None:
        """The DataCaptureConfig as requested."""
        return self.request.get("DataCaptureConfig")


class RoutingConfig(models.Model):
    """How calls are spread over the instances of a variant; the two numbers belong to PREFIX_AWARE, and only to it."""

    class Strategy(models.TextChoices):
        RANDOM = "RANDOM"
        LEAST_OUTSTANDING_REQUESTS = "LEAST_OUTSTANDING_REQUESTS"
        PREFIX_AWARE = "PREFIX_AWARE"
        KV_AWARE = "KV_AWARE"

    variant = models.OneToOneField("Variant", on_delete=models.CASCADE, related_name="routing_config")
    strategy = models.CharField(max_length=32, choices=Strategy.choices, default=Strategy.RANDOM)
    prefix_length = models.PositiveIntegerField(null=True)
    concurrency_threshold = models.PositiveIntegerField(null=True)


class Variant(models.Model):
    """A production variant: a model, how many instances of it, and from which pools they come.

    One that `is_shadow` gets copies of the other's calls instead of calls; its weight, over the other's, is how many.
    A variant that names a single InstanceType has one pool, of priority 1. Durations are in seconds; an empty one
    means the installation's default.
    """

    config = models.ForeignKey(EndpointConfig, on_delete=models.CASCADE, related_name="variants")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=63)
    model_name = models.CharField(max_length=63)
    initial_instance_count = models.PositiveIntegerField()
    initial_weight = models.FloatField(default=1.0)
    is_shadow = models.BooleanField(default=False)
    provision_timeout_seconds = models.PositiveIntegerField(null=True)
    startup_timeout_seconds = models.PositiveIntegerField(null=True)
    download_timeout_seconds = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["config", "name"], name="variant_name_unique")]


class InstancePool(models.Model):
    """One of the up to five instance types a variant may run on; priority 1 is the most wanted.

    Equal priorities are told apart by `position`, the place in the request's list.
    """

    variant = models.ForeignKey(Variant, on_delete=models.CASCADE, related_name="pools")
    position = models.PositiveSmallIntegerField()
    priority = models.PositiveSmallIntegerField()
    instance_type = models.CharField(max_length=64)
    model_name_override = models.CharField(max_length=63, blank=True)

    class Meta:
        ordering = ["priority", "position"]
        constraints = [
            models.UniqueConstraint(fields=["variant", "instance_type"], name="pool_type_unique"),
            models.CheckConstraint(condition=models.Q(priority__range=(1, 5)), name="pool_priority_1_to_5"),
        ]


class Tag(models.Model):
    """A key and a value on a resource, found by the resource's id; gone when the resource is."""

    resource_id = models.UUIDField()
    key = models.CharField(max_length=128)
    value = models.CharField(max_length=256, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["resource_id", "key"], name="tag_key_unique")]


class Quota(models.Model):
    """How many instances of a type an account may want at once, set by the operator; wins over HEADRACE_QUOTAS.

    `name` is an instance type, or `*` for all types together.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=64)
    limit = models.PositiveIntegerField()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["account", "name"], name="quota_unique")]


class PriceOverride(models.Model):
    """What an hour of an instance costs, in US dollars, as an operator has set it; wins over settings and list."""

    instance_type = models.CharField(max_length=64)
    market = models.CharField(max_length=16)
    hourly_price = models.FloatField()
    set_at = models.DateTimeField()
    set_by = models.CharField(max_length=160)

    class Meta:
        ordering = ["instance_type", "market"]
        constraints = [
            models.UniqueConstraint(fields=["instance_type", "market"], name="price_override_key"),
            models.CheckConstraint(condition=models.Q(hourly_price__gte=0), name="price_override_not_negative"),
        ]
