"""AWS protocols as a library, driven by botocore's service models. Knows no domain.

    request --> doors (which operation) --> parse (bytes to values) --> validate (all violations at once)
            --> the registered handler --> serialize (values to bytes) | errors (the error in the protocol's form)

`model` loads the service models, `overlay` holds the few deltas, `registry` the handlers. `resource` is the form of the
REST paths; `schema` tells shapes as OpenAPI, with `patterns` for every engine and what answers hold from `told`.
"""
