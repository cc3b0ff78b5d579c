"""Where each operation has its path under `/api/v1/`: the whole table, and where a request carries which member.

Placeholders of a path are members; GET and DELETE have all others in the query string, POST and PUT in the body. Resources
whose names may hold a slash (alarms) or are ARNs (what is tagged) are named in the query or the body, never in the path:
servers hand a path on decoded, and what was a slash of the name is then one of the path.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from controlplane.wire.services import CLOUDWATCH, SAGEMAKER, Service

PREFIX = "/api/v1"

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SEGMENT = r"(?P<\1>[^/]+)"


@dataclass(frozen=True)
class Route:
    """One operation's place. `path` is relative to PREFIX; `tag` groups it in the document.

    `creates` is the member that names what a POST makes: its answer is a 201 with a Location. `is_read` says that nothing
    is changed, which for a POST is not to be seen from its method.
    """

    operation: str
    method: str
    path: str
    tag: str
    service: Service = SAGEMAKER
    creates: str = ""
    is_read: bool = False

    @property
    def in_path(self) -> frozenset[str]:
        """The members that the path names."""
        return frozenset(_PLACEHOLDER.findall(self.path))

    @property
    def has_body(self) -> bool:
        """Whether the other members travel in a body; if not, in the query string."""
        return self.method in ("POST", "PUT")

    @property
    def pattern(self) -> str:
        """The path as a regular expression without its leading slash; a member is one segment."""
        return f"^{_PLACEHOLDER.sub(_SEGMENT, self.path[1:])}$"

    def status(self, *, has_answer: bool) -> int:
        """Of a success: 201 for what was made, 204 where there is nothing to say, else 200."""
        if self.creates:
            return 201
        return 200 if has_answer else 204


ROUTES = (
    Route("CreateModel", "POST", "/models", "models", creates="ModelName"),
    Route("ListModels", "GET", "/models", "models", is_read=True),
    Route("DescribeModel", "GET", "/models/{ModelName}", "models", is_read=True),
    Route("DeleteModel", "DELETE", "/models/{ModelName}", "models"),
    Route("CreateEndpointConfig", "POST", "/endpoint-configs", "endpoint-configs", creates="EndpointConfigName"),
    Route("ListEndpointConfigs", "GET", "/endpoint-configs", "endpoint-configs", is_read=True),
    Route("DescribeEndpointConfig", "GET", "/endpoint-configs/{EndpointConfigName}", "endpoint-configs", is_read=True),
    Route("DeleteEndpointConfig", "DELETE", "/endpoint-configs/{EndpointConfigName}", "endpoint-configs"),
    Route("CreateEndpoint", "POST", "/endpoints", "endpoints", creates="EndpointName"),
    Route("ListEndpoints", "GET", "/endpoints", "endpoints", is_read=True),
    Route("DescribeEndpoint", "GET", "/endpoints/{EndpointName}", "endpoints", is_read=True),
    Route("UpdateEndpoint", "PUT", "/endpoints/{EndpointName}", "endpoints"),
    Route("DeleteEndpoint", "DELETE", "/endpoints/{EndpointName}", "endpoints"),
    Route("UpdateEndpointWeightsAndCapacities", "POST", "/endpoints/{EndpointName}/weights-and-capacities", "endpoints"),
    Route("AddTags", "POST", "/tags", "tags"),
    Route("ListTags", "GET", "/tags", "tags", is_read=True),
    Route("DeleteTags", "DELETE", "/tags", "tags"),
    Route("PutMetricAlarm", "PUT", "/alarms", "alarms", CLOUDWATCH),
    Route("DescribeAlarms", "GET", "/alarms", "alarms", CLOUDWATCH, is_read=True),
    Route("DeleteAlarms", "DELETE", "/alarms", "alarms", CLOUDWATCH),
    Route("SetAlarmState", "PUT", "/alarms/state", "alarms", CLOUDWATCH),
    Route("ListMetrics", "GET", "/metrics", "metrics", CLOUDWATCH, is_read=True),
    Route("GetMetricStatistics", "GET", "/metrics/statistics", "metrics", CLOUDWATCH, is_read=True),
    Route("PutMetricData", "POST", "/metrics/data", "metrics", CLOUDWATCH),
    Route("GetMetricData", "POST", "/metrics/queries", "metrics", CLOUDWATCH, is_read=True),
)
"""Every operation that has a handler; a test holds the two together."""


def by_path(routes: Iterable[Route] = ROUTES) -> list[tuple[str, tuple[Route, ...]]]:
    """The routes of each path, since one view answers all of its methods."""
    ordered = sorted(routes, key=lambda route: route.pattern)
    return [(pattern, tuple(group)) for pattern, group in groupby(ordered, key=lambda route: route.pattern)]
