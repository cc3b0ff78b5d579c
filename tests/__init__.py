"""Tests mirror the tree; `system` runs the whole of Headrace as processes, `contract` one suite against all providers,
`perf` the benchmarks (not run by pytest)."""
