"""Metrics in buckets of ten seconds, and the alarms on them.

Buckets are written with plain SQL (`store`), so every column is named there and none relies on a default.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class AlarmStateValue(models.TextChoices):
    """What an alarm says of its metric; see `evaluate` for what leads where."""

    OK = "OK"
    ALARM = "ALARM"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"


class MetricSet(models.Model):
    """The metrics that one account keeps under one namespace and one set of dimensions; `names` lists them.

    `id` is a hash of the three (`series.set_id`), so that whoever writes knows it without asking.
    """

    id = models.UUIDField(primary_key=True)
    account_id = models.CharField(max_length=12)
    namespace = models.CharField(max_length=255)
    dimensions = models.JSONField()
    names = ArrayField(models.CharField(max_length=255))
    seen_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["account_id", "namespace", "id"], name="metric_set_by_namespace"),
            models.Index(fields=["seen_at"], name="metric_set_by_time"),
        ]


class MetricBucket(models.Model):
    """What one source counted for one metric set in the ten seconds from `starts_at`.

    `document` maps metric name -> unit -> aggregate (`statistics.Aggregate.encode`). A source is one run of a gateway or
    one PutMetricData call, and writes absolute values, so that writing twice counts once. Readers add the sources up.
    """

    pk = models.CompositePrimaryKey("metric_set_id", "starts_at", "source")
    metric_set_id = models.UUIDField()
    starts_at = models.DateTimeField()
    source = models.CharField(max_length=64)
    document = models.JSONField()

    class Meta:
        indexes = [models.Index(fields=["starts_at"], name="metric_bucket_by_time")]


class MetricAlarm(models.Model):
    """An alarm: its configuration as accepted, what it says now, and since when.

    `revision` rises with every change by a caller, so that an evaluation that began before it is thrown away. `due_at`
    is when the next evaluation is due. `state_since` is when the state last became another one, `state_updated_at` when
    it or its reason was last written.
    """

    id = models.UUIDField(primary_key=True)
    account_id = models.CharField(max_length=12)
    name = models.CharField(max_length=255)
    metric_set_id = models.UUIDField()
    request = models.JSONField()
    state = models.CharField(max_length=24, choices=AlarmStateValue.choices)
    reason = models.CharField(max_length=1023)
    reason_data = models.CharField(max_length=4000, blank=True)
    state_since = models.DateTimeField()
    state_updated_at = models.DateTimeField()
    configured_at = models.DateTimeField()
    due_at = models.DateTimeField()
    revision = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["account_id", "name"], name="alarm_name_unique")]
        indexes = [models.Index(fields=["due_at"], name="alarm_due")]

    def __str__(self) -> str:
        return self.name
