"""Where calls go: the frozen table, the policies that choose from it, the HTTP client that carries the call.

`table`, `policies` and `upstream` are shared by the gateway and the workers and never import Django; `models` and
`publish` are the writing side."""
