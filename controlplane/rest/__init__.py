"""Resource paths under `/api/v1/`: what Headrace knows beyond the API it speaks. Signed, described by OpenAPI, JSON only.

One module a resource. Errors have the wire's form, members are named as the wire names them, times are ISO 8601. May
import everything below `config`.
"""
