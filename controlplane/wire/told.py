"""What answers hold: the members of the models' output structures that Headrace fills, for whoever describes answers.

An output structure that is not listed is told whole; one that requests have too, as far as it is honoured there.
"""

from controlplane.wire.overlay import EVERYTHING, HONOURED

_VARIANT = frozenset(
    {
        "VariantName",
        "DeployedImages",
        "CurrentWeight",
        "DesiredWeight",
        "CurrentInstanceCount",
        "DesiredInstanceCount",
        "InstancePools",
        "VariantStatus",
        "RoutingConfig",
    }
)

TOLD: dict[str, frozenset[str]] = {
    "DescribeModelOutput": frozenset(
        {
            "ModelName",
            "ModelArn",
            "PrimaryContainer",
            "Containers",
            "ExecutionRoleArn",
            "CreationTime",
            "EnableNetworkIsolation",
        }
    ),
    "DescribeEndpointConfigOutput": frozenset(
        {
            "EndpointConfigName",
            "EndpointConfigArn",
            "ProductionVariants",
            "ShadowProductionVariants",
            "DataCaptureConfig",
            "AsyncInferenceConfig",
            "ExecutionRoleArn",
            "CreationTime",
            "EnableNetworkIsolation",
        }
    ),
    "DescribeEndpointOutput": frozenset(
        {
            "EndpointName",
            "EndpointArn",
            "EndpointConfigName",
            "ProductionVariants",
            "ShadowProductionVariants",
            "DataCaptureConfig",
            "EndpointStatus",
            "FailureReason",
            "CreationTime",
            "LastModifiedTime",
            "LastDeploymentConfig",
            "AsyncInferenceConfig",
            "PendingDeploymentSummary",
        }
    ),
    "ProductionVariantSummary": _VARIANT,
    "PendingProductionVariantSummary": _VARIANT | {"InstanceType"},
    "DescribeAlarmsOutput": frozenset({"MetricAlarms", "CompositeAlarms", "NextToken"}),
    # There are none: the list is always empty.
    "CompositeAlarm": frozenset({"AlarmName", "AlarmArn"}),
    "MetricAlarm": HONOURED["PutMetricAlarmInput"]
    | {
        "AlarmArn",
        "AlarmConfigurationUpdatedTimestamp",
        "StateValue",
        "StateReason",
        "StateReasonData",
        "StateUpdatedTimestamp",
        "StateTransitionedTimestamp",
    },
    "GetMetricDataOutput": frozenset({"MetricDataResults"}),
    "MetricDataResult": frozenset({"Id", "Label", "Timestamps", "Values", "StatusCode"}),
    "ListMetricsOutput": frozenset({"Metrics", "NextToken"}),
}


def told_members(shape_name: str) -> frozenset[str]:
    """The members of an output structure that may be answered; EVERYTHING for those told whole."""
    return TOLD.get(shape_name) or HONOURED.get(shape_name, EVERYTHING)
