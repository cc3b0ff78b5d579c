"""Metrics of our own and alarms on them, in the shapes of CloudWatch.

    gateway, PutMetricData --> series (who) + statistics (how much) --> store (one statement) --> buckets of 10 seconds
    buckets --> read --> statistics --> evaluate (alarm states) | the answers of GetMetricStatistics and GetMetricData

`series`, `statistics`, `store` and `evaluate` know no Django: the data plane and the workers share them. May import
`auth`, `observability`, `wire` and `core`."""
