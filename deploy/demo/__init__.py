"""The demonstration that `make demo` runs: a story told by an unmodified boto3."""
