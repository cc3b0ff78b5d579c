"""ModelError: what a container did wrong, in the words that clients match.

The message names the class, the status and the container, quotes what it said and tells where its log is. Source: the
contract, control plane section 7 and data plane 1.3. Its status, 424, is one that SDKs do not retry: a call that may
have run is not run again behind the caller's back.
"""

from controlplane.core.errors import ModelError
from controlplane.routing.table import Route

NO_STATUS = 0
"""OriginalStatusCode where the container gave no answer."""

TIMED_OUT = (
    "Your invocation timed out while waiting for a response from container primary. Review the latency metrics for each "
    "container in Amazon CloudWatch, resolve the issue, and try again."
)
CUT_OFF = "The gateway was stopped before the container had answered."
UNREACHED = "The container could not be reached."

_QUOTED_CHARACTERS = 1024
"""Of the container's words; the message may hold 2,048 characters."""


class Unreached(ModelError):
    """No connection to a container could be made, so that none was asked anything."""


def unreached(route: Route, region: str) -> Unreached:
    """The error for a call that no container of `route` was there for."""
    error = model_error(route, region, NO_STATUS, UNREACHED)
    return Unreached(error.message, error.extra)


def model_error(route: Route, region: str, status: int, text: str) -> ModelError:
    """The error for a container of `route` that answered `status` (0 = not at all) with `text`."""
    side = "client" if 400 <= status < 500 else "server"
    quoted = text[:_QUOTED_CHARACTERS]
    group = f"/aws/sagemaker/Endpoints/{route.endpoint_name}"
    message = (
        f'Received {side} error ({status}) from primary with message "{quoted}". See '
        f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logEventViewer:group={group} "
        f"in account {route.account_id} for more information."
    )
    stream = f"arn:aws:logs:{region}:{route.account_id}:log-group:{group}"
    return ModelError(message, {"OriginalStatusCode": status, "OriginalMessage": quoted, "LogStreamArn": stream})
