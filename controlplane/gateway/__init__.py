"""The gateway: the one front door, raw ASGI in a process of its own, never with Django.

    /endpoints/NAME/invocations, /async-invocations    its own
    /endpoints/NAME/invocations-response-stream        its own: an event stream
    /endpoints/NAME/openai/v1/...                      its own: OpenAI's protocol, bearer tokens
    /healthz, /readyz                                  its own
    signed for the service `s3`                        passed to the embedded store
    everything else                                    passed to the API

It owns nothing: routes and keys are read from PostgreSQL, pushed by NOTIFY, compared every few seconds, and served from
memory when the database is away. Only an asynchronous accept needs the database; a new sticky session is written there.

Who calls is told by a signature, or by an API token (`tokens`) where a client cannot sign; `error_forms` has the form of a
refusal at each path.

Each door (`invoke`, `streaming`, `openai`) checks its request and delivers its answer; `carry` is what they share: an
instance is chosen, asked, counted, captured (`capture`), copied to a shadow (`shadow`), remembered for a session
(`sessions`). What arrives whole and needs nothing but what is in memory goes the express way, which makes no task: accepts
(`express`) and calls that are answered whole (`express_calls`); it must not be told from the ordinary one.
"""
