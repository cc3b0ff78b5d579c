"""An EC2 of one process with fault knobs: `python -m workers.providers.ec2.fake --port N`.

It speaks the EC2 query protocol for the calls that the provider makes, so that an unmodified boto3 client, the AWS CLI and
Headrace itself can be pointed at it.

    wire       parameters of a query -> data, data -> XML, both driven by botocore's model of EC2
    world      instances, tokens, capacity and quotas, and what time does to them
    faults     the knobs and what they do to calls
    calls      the calls, on the world
    machines   instances that answer: one listener for each, on an address of its own
    server     all of it behind HTTP, and the operator's routes

State is in memory and ends with the process. Signatures are not checked.
"""
