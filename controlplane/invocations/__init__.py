"""Asynchronous invocations: accepted durably by the gateway, leased and run by the workers. `accept` is plain SQL."""
