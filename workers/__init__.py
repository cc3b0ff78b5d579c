"""The workers: they make true what `controlplane` says is wanted.

`loop` is the one shape of a controller (claim, observe, plan, act, record), `fleet` and `endpoints` its subjects,
`invocations` runs asynchronous requests, `sweep` mends what a crash left behind, `providers` are where instances come
from.
"""
