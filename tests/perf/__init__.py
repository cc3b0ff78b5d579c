"""Benchmarks: ratios against a baseline measured in the same run. Never a pass or fail; run by `make bench`."""
