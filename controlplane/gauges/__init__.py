"""`GET /metrics`: how the installation stands, for Prometheus.

    measure (a handful of queries) --> reading (what was found) --> exposition (names, labels, text) --> views (who may ask)

Everything is a gauge read from the database when somebody asks, so any API process gives the same answer and none keeps
a count. What is told of single endpoints is bounded: of each kind the `SERIES` worst, while the totals hold for all. The
alerts on these gauges are in `deploy/alerts`, and what to do about each in `deploy/runbooks`.
"""
