"""Requests and answers of the main journeys, for the OpenAPI document; tests hold them against the shapes."""

from typing import Any

Example = tuple[str, dict[str, Any]]
"""What it shows, and the body."""

_ARN = "arn:aws:sagemaker:us-east-1:123456789012"
_MOMENT = "2026-01-31T12:00:00.000Z"

_POOLS = [
    {"InstanceType": "ml.g5.2xlarge", "Priority": 1},
    {"InstanceType": "ml.g4dn.xlarge", "Priority": 2},
]

REQUESTS: dict[str, dict[str, Example]] = {
    "CreateModel": {
        "built-in": (
            "The reference container",
            {"ModelName": "echo", "PrimaryContainer": {"Image": "headrace/reference:latest"}},
        ),
        "own": (
            "A container of your own, with its artefacts",
            {
                "ModelName": "llm",
                "PrimaryContainer": {
                    "Image": "acme/llm:1",
                    "ModelDataUrl": "s3://models/llm.tar.gz",
                    "Environment": {"MAX_TOKENS": "4096"},
                },
            },
        ),
    },
    "CreateEndpointConfig": {
        "fallback": (
            "A wanted type and its fallback",
            {
                "EndpointConfigName": "echo",
                "ProductionVariants": [
                    {
                        "VariantName": "main",
                        "ModelName": "echo",
                        "InitialInstanceCount": 2,
                        "InstancePools": _POOLS,
                        "VariantInstanceProvisionTimeoutInSeconds": 1800,
                    }
                ],
            },
        ),
        "asynchronous": (
            "For asynchronous requests",
            {
                "EndpointConfigName": "echo-async",
                "ProductionVariants": [
                    {"VariantName": "main", "ModelName": "echo", "InitialInstanceCount": 1, "InstancePools": _POOLS}
                ],
                "AsyncInferenceConfig": {
                    "OutputConfig": {"S3OutputPath": "s3://answers/out", "S3FailurePath": "s3://answers/failed"}
                },
            },
        ),
    },
    "CreateEndpoint": {
        "plain": ("From a configuration", {"EndpointName": "echo", "EndpointConfigName": "echo"}),
        "options": (
            "With options of Headrace's own",
            {
                "EndpointName": "echo",
                "EndpointConfigName": "echo",
                "Tags": [
                    {"Key": "headrace:coming-home", "Value": "10m"},
                    {"Key": "headrace:max-hourly-price", "Value": "12.50"},
                ],
            },
        ),
    },
    "UpdateEndpoint": {
        "canary": (
            "A canary that an alarm can undo",
            {
                "EndpointConfigName": "echo-2",
                "DeploymentConfig": {
                    "BlueGreenUpdatePolicy": {
                        "TrafficRoutingConfiguration": {
                            "Type": "CANARY",
                            "CanarySize": {"Type": "INSTANCE_COUNT", "Value": 1},
                            "WaitIntervalInSeconds": 300,
                        }
                    },
                    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "echo-errors"}]},
                },
            },
        ),
        "rolling": (
            "Rolling, half of the fleet at a time",
            {
                "EndpointConfigName": "echo-2",
                "DeploymentConfig": {
                    "RollingUpdatePolicy": {
                        "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
                        "WaitIntervalInSeconds": 60,
                    }
                },
            },
        ),
    },
    "UpdateEndpointWeightsAndCapacities": {
        "scale": (
            "Two instances",
            {"DesiredWeightsAndCapacities": [{"VariantName": "main", "DesiredInstanceCount": 2}]},
        )
    },
    "AddTags": {
        "option": (
            "Come home to the wanted type",
            {
                "ResourceArn": f"{_ARN}:endpoint/echo",
                "Tags": [{"Key": "headrace:coming-home", "Value": "10m"}],
            },
        )
    },
    "PutMetricAlarm": {
        "errors": (
            "Too many failed calls",
            {
                "AlarmName": "echo-errors",
                "Namespace": "AWS/SageMaker",
                "MetricName": "Invocation5XXErrors",
                "Dimensions": [{"Name": "EndpointName", "Value": "echo"}, {"Name": "VariantName", "Value": "main"}],
                "Statistic": "Sum",
                "Period": 60,
                "EvaluationPeriods": 1,
                "Threshold": 5,
                "ComparisonOperator": "GreaterThanThreshold",
                "TreatMissingData": "notBreaching",
            },
        )
    },
    "GetMetricData": {
        "latency": (
            "The 99th percentile of an hour",
            {
                "StartTime": "2026-01-31T12:00:00Z",
                "EndTime": "2026-01-31T13:00:00Z",
                "MetricDataQueries": [
                    {
                        "Id": "latency",
                        "MetricStat": {
                            "Metric": {
                                "Namespace": "AWS/SageMaker",
                                "MetricName": "ModelLatency",
                                "Dimensions": [
                                    {"Name": "EndpointName", "Value": "echo"},
                                    {"Name": "VariantName", "Value": "main"},
                                ],
                            },
                            "Period": 60,
                            "Stat": "p99",
                        },
                    }
                ],
            },
        )
    },
}
"""Operation -> name of the example -> what it shows and the body."""

ANSWERS: dict[str, dict[str, Any]] = {
    "CreateModel": {"ModelArn": f"{_ARN}:model/echo"},
    "CreateEndpointConfig": {"EndpointConfigArn": f"{_ARN}:endpoint-config/echo"},
    "CreateEndpoint": {"EndpointArn": f"{_ARN}:endpoint/echo"},
    "DescribeEndpoint": {
        "EndpointName": "echo",
        "EndpointArn": f"{_ARN}:endpoint/echo",
        "EndpointConfigName": "echo",
        "EndpointStatus": "InService",
        "CreationTime": _MOMENT,
        "LastModifiedTime": "2026-01-31T12:00:42.000Z",
        "ProductionVariants": [
            {
                "VariantName": "main",
                "CurrentWeight": 1.0,
                "DesiredWeight": 1.0,
                "CurrentInstanceCount": 2,
                "DesiredInstanceCount": 2,
                "InstancePools": [
                    {"InstanceType": "ml.g5.2xlarge", "CurrentInstanceCount": 1},
                    {"InstanceType": "ml.g4dn.xlarge", "CurrentInstanceCount": 1},
                ],
                "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            }
        ],
    },
    "ListEndpoints": {
        "Endpoints": [
            {
                "EndpointName": "echo",
                "EndpointArn": f"{_ARN}:endpoint/echo",
                "CreationTime": _MOMENT,
                "LastModifiedTime": "2026-01-31T12:00:42.000Z",
                "EndpointStatus": "InService",
            }
        ]
    },
}
"""Operation -> an answer."""
