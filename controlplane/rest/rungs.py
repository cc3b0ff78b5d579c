"""The rungs of a ladder and sums of money, as previews and explanations both show them."""

from rest_framework import serializers

from controlplane.core.offerings import Standing
from controlplane.fleet.ladder import State


class RungSerializer(serializers.Serializer):
    """An offering (a pool in a zone of a market) and where it stands in a search; the most wanted comes first."""

    Priority = serializers.IntegerField(source="offering.pool.priority")
    InstanceType = serializers.CharField(source="offering.pool.instance_type")
    Zone = serializers.CharField(source="offering.zone")
    Market = serializers.CharField(source="offering.market")
    HourlyPrice = serializers.FloatField(source="offering.hourly_price", allow_null=True, help_text="US dollars.")
    Standing = serializers.ChoiceField(choices=[each.value for each in Standing], source="standing")
    Why = serializers.CharField(source="why", allow_blank=True)
    Until = serializers.DateTimeField(source="until", allow_null=True, help_text="When the standing ends by itself.")


class StepSerializer(serializers.Serializer):
    """A rung with what came of asking it."""

    Rung = RungSerializer(source="rung")
    State = serializers.ChoiceField(choices=[each.value for each in State], source="state")
    Asked = serializers.IntegerField(source="tries.asked")
    Launched = serializers.IntegerField(source="tries.launched")
    Refused = serializers.IntegerField(source="tries.refused")
    UnderWay = serializers.IntegerField(source="tries.under_way")
    LastAskedAt = serializers.DateTimeField(source="tries.last_asked_at", allow_null=True)
    ErrorKind = serializers.CharField(source="tries.error_kind", allow_blank=True)
    ErrorMessage = serializers.CharField(source="tries.message", allow_blank=True)
    NextTryAt = serializers.DateTimeField(source="next_try_at", allow_null=True)
    Sentence = serializers.CharField(source="sentence")


class SpendSerializer(serializers.Serializer):
    """What instances have cost so far; hours without a known price have no dollars."""

    InstanceHours = serializers.FloatField(source="hours")
    Dollars = serializers.FloatField(source="dollars")
    UnpricedHours = serializers.FloatField(source="unpriced_hours")
    Running = serializers.IntegerField(source="running")
    HourlyDollars = serializers.FloatField(source="hourly_dollars")


class PoolSpendSerializer(serializers.Serializer):
    """What one pool of one variant has cost."""

    VariantName = serializers.CharField(source="variant")
    InstanceType = serializers.CharField(source="instance_type")
    Market = serializers.CharField(source="market")
    Spend = SpendSerializer(source="spend")
