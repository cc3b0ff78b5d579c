"""The control plane: what is wanted, what is true, and the API that changes the one and reports the other.

Directions (held by import-linter): `core` <- everything; `wire` knows no domain; `catalog` < `endpoints` < `fleet` <
`routing`; `gateway` never imports Django; nothing here imports `workers` (doorbells go by task name).
"""
