"""Running asynchronous invocations: claim a batch, call the instances, store what came of it.

`dispatcher`  the loop of a worker: wakes, claims, renews leases, starts one coroutine for each invocation
`queue`       the SQL: claims, leases, outcomes, each guarded by the lease's token
`plan`        pure: what an answer, or its absence, means
`run`         one invocation, from lease to outcome
`store`       the output store
"""
