"""Who is calling: accounts, access keys, signatures.

`sigv4` and `secrets` are pure and shared with the gateway; `models` and `authenticate` are the API's side. May import
`core` only."""
