"""Capacity providers: where instances come from.

`base` is the contract, `errors` the closed set of ways a provider may refuse, `registry` the one list of providers.
A provider imports the contract and its own SDK, never Django and never `controlplane` (`controlplane.core` excepted).
"""
