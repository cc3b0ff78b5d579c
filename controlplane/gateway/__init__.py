"""The gateway: the one front door, raw ASGI in a process of its own, never with Django.

    /endpoints/NAME/invocations, /async-invocations    its own
    /healthz, /readyz                                  its own
    signed for the service `s3`                        passed to the embedded store
    everything else                                    passed to the API

It owns nothing: routes and keys are read from PostgreSQL, pushed by NOTIFY, compared every few seconds, and served from
memory when the database is away. Only an asynchronous accept needs the database.
"""
