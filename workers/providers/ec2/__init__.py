"""The `ec2` provider: an instance is an EC2 instance that runs the model's container by docker.

    settings    what the operator sets, read once and refused by name                (pure)
    codes       EC2's words -> kinds of errors                                       (pure)
    request     one launch -> the parameters of RunInstances                         (pure)
    user_data   what the machine does at boot: a shell script and its payload        (pure)
    instances   an instance as EC2 tells it -> as the contract tells it              (pure)
    notices     interruptions and scheduled events                                   (pure; polled by the provider)
    calls       the client: one attempt a call, bounded in time, errors as kinds
    provider    the contract

`fake` is an EC2 of one process with fault knobs, for tests and for rehearsals. Rebalance recommendations are not seen:
EC2 tells them to the instance and to EventBridge only.
"""
