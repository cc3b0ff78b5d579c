"""Moving an endpoint to another configuration: chosen first, then shown with its strategy in words, then done."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.db import transaction

from controlplane.catalog.models import EndpointConfig
from controlplane.console import endpoint_words as words
from controlplane.console.actions import Action
from controlplane.console.endpoint_actions import OfEndpoint
from controlplane.core import clock
from controlplane.core.words import counted
from controlplane.endpoints import deployments, strategies
from controlplane.endpoints.models import Endpoint
from controlplane.endpoints.selectors import options_of

OFFERED = 200
"""So many configurations are offered, the newest first; any other can be typed."""

RETAINED, DEFAULT, CANARY, LINEAR, ROLLING = "retained", "default", "canary", "linear", "rolling"


class UpdateForm(forms.Form):
    """Which configuration, and how to get there."""

    config = forms.CharField(label="Configuration", max_length=63)
    keeps = forms.BooleanField(
        label="Keep counts and weights as they are",
        required=False,
        initial=True,
        help_text="Otherwise those of the configuration count.",
    )
    strategy = forms.ChoiceField(label="How")
    percent = forms.IntegerField(
        label="Size of a step, in % of the fleet", min_value=1, max_value=50, initial=10, help_text="Not for all at once."
    )
    bake = forms.IntegerField(
        label="Bake of each step, in seconds", min_value=0, max_value=3600, initial=60, help_text="Not for all at once."
    )

    def __init__(self, data: Any, *, configs: Sequence[str], last: Mapping[str, Any] | None) -> None:
        super().__init__(data)
        self.fields["config"].widget = Suggested(configs)
        kept = [(RETAINED, "As the last time")] if last else []
        self.fields["strategy"].choices = [
            *kept,
            (DEFAULT, "Blue/green, all at once"),
            (CANARY, "Blue/green, canary"),
            (LINEAR, "Blue/green, linear"),
            (ROLLING, "Rolling"),
        ]


class Suggested(forms.TextInput):
    """A text field that offers values; any other can be typed."""

    template_name = "console/action/suggested.html"

    def __init__(self, values: Sequence[str]) -> None:
        super().__init__({"autocomplete": "off", "list": "suggested"})
        self.values = values

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        return {**super().get_context(name, value, attrs), "values": self.values}


class Update(OfEndpoint):
    """What is to be chosen; once that is known, `Review` shows what it comes to, and only its form makes the change."""

    button = "Show what will happen"
    heading = "As it is now"
    _is_reviewed = False

    @property
    def title(self) -> str:
        return f"Update {self.arn.name}"

    def consequences(self) -> Sequence[str]:
        endpoint = self.endpoint()
        told = [f"It runs configuration {endpoint.config_name}; nothing is changed before you have seen what it comes to."]
        if endpoint.deployment_config:
            told.append(f"The last time: {_in_words(endpoint, endpoint.deployment_config)}")
        return told

    def form(self, data: Any = None) -> forms.Form:
        self._is_reviewed = data is not None and "reviewed" in data
        rows = EndpointConfig.objects.filter(account_id=self.arn.account_id).order_by("-created_at")
        found = self.found()
        configs = list(rows.values_list("name", flat=True)[:OFFERED])
        return UpdateForm(data, configs=configs, last=found.deployment_config if found else None)

    def do(self, chosen: dict[str, Any]) -> str | Action:
        update = _update(chosen)
        if self._is_reviewed:
            deployments.update_endpoint(arn=self.arn, update=update, now=clock.now())
            return f"{self.arn.name} is on its way to configuration {update.config_name}."
        # Whatever the service would refuse is refused here already: the change is made, and undone at once.
        with transaction.atomic():
            deployments.update_endpoint(arn=self.arn, update=update, now=clock.now())
            review = Review(self, chosen, self.endpoint())
            transaction.set_rollback(True)
        return review


class Review(OfEndpoint):
    """The question proper: which fleet is to come, and how. Made while the change is there to be read."""

    button = "Start the update"

    def __init__(self, update: Update, chosen: Mapping[str, Any], endpoint: Endpoint) -> None:
        super().__init__(update.arn.account_id, update.arn.name)
        self._chosen = chosen
        self._told = _told(endpoint, chosen["config"])

    @property
    def title(self) -> str:
        return f"Update {self.arn.name} to {self._chosen['config']}?"

    def consequences(self) -> Sequence[str]:
        return self._told

    def form(self, data: Any = None) -> forms.Form:
        form = forms.Form(data)
        for name, value in {**self._chosen, "reviewed": True}.items():
            form.fields[name] = forms.CharField(initial=value or "", required=False, widget=forms.HiddenInput())
        return form


def _update(chosen: Mapping[str, Any]) -> deployments.Update:
    config = deployment_config(chosen)
    params: dict[str, Any] = {"EndpointConfigName": chosen["config"], "RetainAllVariantProperties": chosen["keeps"]}
    if chosen["strategy"] == RETAINED:
        params["RetainDeploymentConfig"] = True
    return deployments.Update.of({**params, "DeploymentConfig": config} if config else params)


def _told(endpoint: Endpoint, config_name: str) -> tuple[str, ...]:
    """What the update comes to, read from its rows."""
    deployment = endpoint.deployment
    variants = endpoint.variants.filter(revision=deployment.to_revision).prefetch_related("pools")
    fleet = []
    for row in variants:
        pools = " or ".join(pool.instance_type for pool in row.pools.all())
        fleet.append(f"{row.name}: {counted(row.full_count, 'instance')} of {pools}")
    return (
        f"From configuration {endpoint.config_name} to {config_name}.",
        words.strategy(deployment.strategy),
        f"The fleet to come: {'; '.join(fleet)}.",
        "The present fleet answers until the new one serves. If that cannot be had or does not start, all goes back.",
    )


def _in_words(endpoint: Endpoint, config: Mapping[str, Any]) -> str:
    return words.strategy(strategies.strategy_of(config, is_surgeless=options_of(endpoint).is_surgeless))


def deployment_config(chosen: Mapping[str, Any]) -> dict[str, Any] | None:
    """The API's DeploymentConfig for what was chosen; None where the last one is retained or none is needed."""
    size = {"Type": "CAPACITY_PERCENT", "Value": chosen["percent"]}
    if chosen["strategy"] == ROLLING:
        return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": chosen["bake"]}}
    member = {CANARY: "CanarySize", LINEAR: "LinearStepSize"}.get(chosen["strategy"])
    if member is None:
        return None
    routing = {"Type": chosen["strategy"].upper(), "WaitIntervalInSeconds": chosen["bake"], member: size}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}
