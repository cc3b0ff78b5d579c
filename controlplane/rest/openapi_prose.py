"""What the OpenAPI document says in words: of tags, of operations, and of members where their name does not say it all."""

DESCRIPTION = """\
Everything that Headrace does, as resources: the operations of the SageMaker hosting API and of CloudWatch's metrics and
alarms under their own names and with their own members, and what Headrace has beyond them.

- **Names** of operations, members and error codes are those of the AWS API; the same handlers answer at both doors.
- **Times** are ISO 8601 with an offset. Nulls are left out.
- **Pages** end when NextToken is absent or null.
- **A missing resource** is a ValidationException with status 400, as the AWS API has it.
- **Credentials** are an AWS signature, an API token, or the session of an operator who is logged in to the console.
"""

TAGS = {
    "models": "A container image with its environment and its artefacts: what an instance runs.",
    "endpoint-configs": "Which models run on how many instances of which types. Immutable.",
    "endpoints": "What is running, why it is where it is, and what to do about it.",
    "invocations": "Calls of endpoints, answered at once, as a stream, or later. At the root, not under /api/v1.",
    "async-requests": "Asynchronous requests: found, told step by step, put back, cancelled.",
    "dead-letters": "Asynchronous requests that failed or expired.",
    "placement-previews": "Where an endpoint would land if it were created now, and what it would cost.",
    "capacity-marks": "What is remembered of refusals.",
    "orphans": "Instances that run and belong to no endpoint.",
    "events": "What happened and was decided, by whom, over all endpoints.",
    "instance-types": "The catalogue of instance types, and what an hour of them costs.",
    "quotas": "How many instances of a type an account may want at once.",
    "spend": "What it has cost so far, by pool.",
    "simulated-capacity": "Shortages, rehearsed: how much of a type the simulated provider has.",
    "access-keys": "Key pairs that sign requests.",
    "tokens": "API tokens, for clients that cannot sign.",
    "tags": "Tags of models, configurations and endpoints, by ARN. Some are options of Headrace's own.",
    "alarms": "Alarms on metrics. A deployment can be undone by them; actions are kept and run nowhere.",
    "metrics": "Metrics: Headrace's own and whatever is put.",
}

TAG_OF = {"dead-letter-counts": "dead-letters"}
"""Paths that belong to another resource than their first part says."""

OPERATIONS: dict[str, tuple[str, str]] = {
    "CreateModel": ("Create a model", "Store what an instance runs. Nothing starts until an endpoint uses it."),
    "ListModels": ("List models", "A page of the account's models, the latest first unless asked otherwise."),
    "DescribeModel": ("Describe a model", "One model as it was created."),
    "DeleteModel": ("Delete a model", "Forget a model. Endpoints that run it keep a copy of their own and are not harmed."),
    "CreateEndpointConfig": (
        "Create an endpoint configuration",
        (
            "Store which models run on which instance types. A variant names one type, or up to five in order of priority: "
            "each is asked when those before it have no capacity, and the fallbacks are scaled in first."
        ),
    ),
    "ListEndpointConfigs": ("List endpoint configurations", "A page of the account's configurations."),
    "DescribeEndpointConfig": ("Describe an endpoint configuration", "One configuration as it was created."),
    "DeleteEndpointConfig": (
        "Delete an endpoint configuration",
        "Forget a configuration. Endpoints that were made from it keep a copy of their own and are not harmed.",
    ),
    "CreateEndpoint": (
        "Create an endpoint",
        (
            "Start what a configuration asks for. The answer comes at once; the endpoint is Creating until enough of it "
            "serves, then InService. Meanwhile its explanation tells what was asked where, and what comes next."
        ),
    ),
    "ListEndpoints": ("List endpoints", "A page of the account's endpoints with their status."),
    "DescribeEndpoint": (
        "Describe an endpoint",
        "Its status, what runs now by variant and instance type, what is being changed, and why it failed if it did.",
    ),
    "UpdateEndpoint": (
        "Move an endpoint to another configuration",
        (
            "The old fleet answers until the new one serves: blue/green or rolling, undone by alarms, as DeploymentConfig "
            "says. A new fleet that cannot be had, or does not start, leaves the old one in service."
        ),
    ),
    "DeleteEndpoint": (
        "Delete an endpoint",
        "End its instances. Accepted whatever is under way; the endpoint is Deleting until the last instance is gone.",
    ),
    "UpdateEndpointWeightsAndCapacities": (
        "Change weights and instance counts",
        (
            "Of the variants named, without a new configuration. A scale-out starts again at priority 1; a scale-in takes "
            "the least wanted types first."
        ),
    ),
    "AddTags": ("Add tags", "Add tags to a resource, or change their values. Keys that begin with headrace: are options."),
    "ListTags": ("List tags", "All tags of a resource."),
    "DeleteTags": ("Delete tags", "Take tags off a resource; keys that it does not have do no harm."),
    "PutMetricAlarm": ("Create or change an alarm", "An alarm of the same name is replaced; it keeps its state."),
    "DescribeAlarms": ("Describe alarms", "A page of alarms with their state and why they are in it."),
    "DeleteAlarms": ("Delete alarms", "All of them or, where one is not there, none."),
    "SetAlarmState": ("Set the state of an alarm", "For rehearsals: it lasts until the alarm is evaluated next."),
    "ListMetrics": ("List metrics", "Which metrics there are, by namespace, name and dimensions."),
    "GetMetricStatistics": ("Read statistics of one metric", "Statistics by period; periods without data are left out."),
    "PutMetricData": ("Put metric data", "Values, or statistics of many values, under a namespace of your own."),
    "GetMetricData": ("Read several metrics at once", "Each query gives a series of its own. Metric math is refused."),
    "InvokeEndpoint": (
        "Call an endpoint",
        "The body goes to a container as it is, its answer comes back as it is; content types are between the two.",
    ),
    "InvokeEndpointAsync": (
        "Queue a call of an endpoint",
        (
            "The request is kept durably and answered later: where, is told at once. Give either a body of at most 128,000 "
            "bytes or the location of a larger one, never both."
        ),
    ),
    "InvokeEndpointWithResponseStream": (
        "Call an endpoint and read its answer as it comes",
        (
            "The answer is framed in AWS's event stream. Clients without a reader for it use the chat paths, whose streams "
            "are server-sent events."
        ),
    ),
    "CreateChatCompletion": (
        "Chat with an endpoint",
        (
            "OpenAI's chat completions, carried to the container as they are. With stream: true the answer is server-sent "
            "events. OpenAI's own clients work with /endpoints/{EndpointName}/openai/v1 as their base URL."
        ),
    ),
    "CreateCompletion": ("Complete a text", "OpenAI's completions, carried to the container as they are."),
    "ListServedModels": ("List the container's models", "What the container itself says it serves."),
}
"""Operation -> a title, and what is worth knowing."""

_MEMBERS = {
    "NextToken": "From the page before; absent on the last.",
    "MaxResults": "The most that one page holds.",
    "SortBy": "By what the list is sorted.",
    "NameContains": "Only what has this in its name.",
    "CreationTimeAfter": "Only what was created then or later.",
    "CreationTimeBefore": "Only what was created then or earlier.",
    "LastModifiedTimeAfter": "Only what was changed then or later.",
    "LastModifiedTimeBefore": "Only what was changed then or earlier.",
    "InstanceType": "A type of the installation's catalogue; operators may add their own.",
    "Priority": "1 is the most wanted. Equal priorities are taken in the order of the list.",
    "ModelNameOverride": "Run this model on instances of this type instead of the variant's.",
    "InstancePools": "The instance types to ask, most wanted first; instead of InstanceType.",
    "VariantInstanceProvisionTimeoutInSeconds": "How long the search for capacity may take before it is given up.",
    "InitialVariantWeight": "The variant's share of the calls, relative to the other variants'; 1 when not given.",
    "ModelDataUrl": "Where the model's artefacts are: an s3:// address of a tar.",
    "Environment": "The container's whole environment.",
    "S3OutputPath": "Answers are stored under this s3:// address.",
    "S3FailurePath": "Failures are told under this s3:// address.",
    "MaxConcurrentInvocationsPerInstance": "Requests that one instance works on at a time.",
    "FailureReason": "Why the last creation, update or deletion failed.",
    "PendingDeploymentSummary": "The creation or the deployment under way, with the sentence that says why it is not over.",
    "StatusMessage": "The last plan's sentence.",
    "ResourceArn": "The ARN of a model, a configuration or an endpoint.",
    "Dimensions": "Each as Name=Value; where a metric need only have the dimension, its Name alone.",
    "Period": "Seconds.",
    "RoutingStrategy": "How calls are spread over instances.",
    "TerminationWaitInSeconds": "How long the old fleet is kept after the new one has taken over.",
    "AutoRollbackConfiguration": "Alarms that undo the deployment when one of them goes off.",
    "CustomAttributes": "Handed to the container, and back.",
    "TargetVariant": "The variant that is to answer, instead of one by weight.",
    "InferenceId": "The caller's own name for the request, kept with it.",
    "SessionId": "Keeps a session on the instance that began it; NEW_SESSION begins one.",
    "PrefixAwareId": "Calls with the same id go to the same instance where they can.",
    "Accept": "The content type wanted of the container.",
    "ContentType": "The content type of the body, as the container is to see it.",
    "InputLocation": "Where the body is, instead of in the request: s3://, or https:// of a host that is allowed.",
    "RequestTTLSeconds": "How long the request may wait before it expires.",
    "InvocationTimeoutSeconds": "How long a container may work on it.",
    "S3OutputPathExtension": "Put between the output path and the file's name.",
    "Filename": "The answer's file name, instead of one made up.",
    "OutputLocation": "Where the answer will be.",
    "FailureLocation": "Where a failure will be told.",
    "InvokedProductionVariant": "The variant that answered.",
    "NewSessionId": "The session that began, and until when it lasts.",
    "ClosedSessionId": "The session that ended.",
}

_MEMBERS_OF = {
    ("Metric", "Dimensions"): "",
    ("MetricAlarm", "Dimensions"): "",
    ("MetricDatum", "Dimensions"): "",
    ("PutMetricAlarmInput", "Dimensions"): "",
    ("PutMetricAlarmInput", "Period"): "Seconds: 10, 30, or a multiple of 60.",
    ("InstancePoolSummary", "InstanceType"): "",
    ("ProductionVariantSummary", "InstancePools"): "What runs now, by instance type.",
    ("PendingProductionVariantSummary", "InstancePools"): "What runs now, by instance type.",
}
"""Where a member of that name is something else than elsewhere."""


def describe(structure: str, member: str) -> str:
    """Words about a member of a structure; nothing where its name says it all."""
    found = _MEMBERS_OF.get((structure, member))
    return _MEMBERS.get(member, "") if found is None else found
