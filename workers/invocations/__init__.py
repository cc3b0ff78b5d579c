"""Running asynchronous invocations: claim a batch, call the instances, store what came of it.

`dispatcher`  the loop of a worker: hears (`doorbell`), claims, renews leases, puts right what others left
`appetite`    pure: which endpoints to claim from next, and when
`crew`        what runs on the loop: a task for each leased request
`queue`       claims and leases, as SQL in `statements`
`ledger`      what became of leased requests, many in one statement, guarded by the lease's token
`plan`        pure: what an answer, or its absence, means
`run`         one invocation, from lease to outcome: `ask` the model, tell the `outcomes`
`store`       the output store
"""
