"""What is wrong with an endpoint, by the phase it is in and how long it has been. Pure."""

from datetime import datetime

from controlplane.console.facts import EndpointFact
from controlplane.console.problem import Problem, Severity, told
from controlplane.console.words import span

STUCK_SECONDS = 900
"""A phase that lasts longer than this should be looked at; the default search for capacity lasts twice as long."""


def endpoint_problem(fact: EndpointFact, now: datetime) -> Problem | None:
    """What is wrong with an endpoint; None where nothing is, yet."""
    verdict = _verdict(fact, (now - fact.since).total_seconds())
    if verdict is None:
        return None
    severity, sentence, advice = verdict
    return Problem(severity, sentence, advice, "endpoint", fact.account_id, fact.name, fact.since)


def _verdict(fact: EndpointFact, lasted: float) -> tuple[Severity, str, str] | None:
    """How bad it is, the sentence and the advice; None where nothing is wrong yet. `lasted` is in seconds."""
    name, reason = fact.name, fact.failure_reason or fact.why
    match fact.phase:
        case "Failed":
            advice = "It serves nobody. Delete it and create it again once the reason is gone."
            return Severity.BAD, told(f"{name} failed to be created", reason), advice
        case "UpdateRollbackFailed":
            advice = "Two fleets stand side by side. Update it to a configuration that is known to work."
            return Severity.BAD, told(f"{name} could neither be updated nor go back", reason), advice
        case "InService" if fact.failure_reason:
            advice = "What ran before goes on serving. Correct the configuration and update again."
            return Severity.WARN, told(f"The last change of {name} failed", reason), advice
        case "Creating" if lasted > STUCK_SECONDS:
            advice = "It serves nobody yet. Its page shows every type that was asked, and what comes next."
            return Severity.BAD, told(f"{name} has been creating for {span(lasted)}", fact.why), advice
        case "Creating" | "Updating" if fact.is_refused:
            advice = "It asks again by itself. The capacity board says what is marked, and until when."
            return Severity.WARN, told(f"{name} waits for capacity", fact.why), advice
        case "Updating" | "RollingBack" | "Deleting" if lasted > STUCK_SECONDS:
            sentence = told(f"{name} has been {_DOING[fact.phase]} for {span(lasted)}", fact.why)
            return Severity.WARN, sentence, "Its page shows what it waits for."
    return None


_DOING = {"Updating": "updating", "RollingBack": "rolling back", "Deleting": "deleting"}
