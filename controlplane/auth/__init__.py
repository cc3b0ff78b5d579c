"""Who is calling, and what they may do: accounts, access keys, signatures, tokens, roles.

`sigv4`, `bearer` and `secrets` are pure and shared with the gateway; the rest is the API's side. May import `core` and
`observability` only: who may call is part of the story too."""
