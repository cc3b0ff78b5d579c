"""Where the trial of an endpoint's topics stands, as the planner sees it."""

from controlplane.catalog.models import EndpointConfig
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
    rows = EndpointConfig.objects.filter(account_id=endpoint.account_id, name=config_name)
    request = rows.values_list("request", flat=True).first() or {}
    role = request.get("ExecutionRoleArn", "")
    return (
        f"The test notification could not be published to {trial.refused_topic}. Make sure that the topic exists and that "
        f"the execution role{f' {role}' if role else ''} is allowed sns:Publish on it (Headrace publishes with the "
        f"credentials of its workers). {trial.error}"
    )
