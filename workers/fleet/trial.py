"""Where the trial of an endpoint's topics stands, as the planner sees it."""

from controlplane.catalog.models import EndpointConfig, Model
from controlplane.endpoints.models import Endpoint
from controlplane.invocations.notifications import Trial, trial_of
from workers.fleet.view import Topics


def topics_of(endpoint: Endpoint, config_name: str) -> Topics:
    """The trial's state; `config_name` is the configuration whose topics are tried."""
    if not endpoint.is_async:
        return Topics()
    trial = trial_of(endpoint.id)
    return Topics(trial.waiting, _refusal(endpoint, config_name, trial) if trial.refused_topic else "")


def _refusal(endpoint: Endpoint, config_name: str, trial: Trial) -> str:
    """The FailureReason: which topic, which role should be allowed to publish, and what was answered."""
    role = _role(endpoint, config_name)
    return (
        f"The test notification could not be published to {trial.refused_topic}. Make sure that the topic exists and that "
        f"the execution role{f' {role}' if role else ''} is allowed sns:Publish on it (Headrace publishes with the "
        f"credentials of its workers). {trial.error}"
    )


def _role(endpoint: Endpoint, config_name: str) -> str:
    """The role of the configuration, else of a model; empty where they are gone or name none."""
    config = EndpointConfig.objects.filter(account_id=endpoint.account_id, name=config_name).first()
    if config is None:
        return ""
    names = [variant["ModelName"] for variant in config.request["ProductionVariants"]]
    models = Model.objects.filter(account_id=endpoint.account_id, name__in=names).values_list("request", flat=True)
    roles = [request.get("ExecutionRoleArn", "") for request in (config.request, *models)]
    return next((role for role in roles if role), "")
