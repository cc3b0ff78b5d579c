"""What can be asked for: models, endpoint configurations, variants and their instance pools, tags. May import `core`,
`wire` and `observability`."""
