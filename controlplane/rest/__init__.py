"""Resource paths under `/api/v1/`: the operations of the API that Headrace speaks, and what it knows beyond them.

    routes, door      the AWS-named operations, by a table, through the handlers of the AWS door
    one module each   Headrace's own resources
    openapi*, docs    the document of both and of the invocation paths, and the pages that show it

Errors have the wire's form, members are named as the wire names them, times are ISO 8601. May import everything below
`config`.
"""
