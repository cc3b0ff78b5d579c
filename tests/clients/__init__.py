"""Clients that generators make of the OpenAPI document alone, and a fuzzer that reads it, against a running Headrace."""
