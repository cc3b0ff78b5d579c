"""Counting at the end: what was promised, what rows say, what lies in the store, what the model saw."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.chaos.traffic import Promise
from tests.system.stack import Stack

ENDED = ("completed", "failed", "expired")
_ROWS = """
SELECT inference_id, state, attempts, output_location, failure_location FROM invocations_asyncinvocation
WHERE endpoint_name = %s
"""


@dataclass
class Audit:
    """What the chaos came to; `faults` are sentences, none when all is well."""

    promised: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    unasked: int = 0
    again: int = 0
    outputs: int = 0
    failures: int = 0
    executions: int = 0
    most_executions: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(self.rows.items()))
        return (
            f"accepted {self.promised:,}, and {self.unasked:,} whose 202 was lost; outcomes: {states}, {self.again:,} of "
            f"them after more than one lease; objects: {self.outputs:,} outputs, {self.failures:,} failures; "
            f"the model ran {self.executions:,} times, at most "
            f"{self.most_executions} for one request; wrong: {len(self.faults)}"
        )


def audit(stack: Stack, endpoint: str, bucket: str, promises: Mapping[str, Promise], runs: Counter[str]) -> Audit:
    """Compare everything with everything."""
    found = Audit(len(promises), executions=runs.total(), most_executions=max(runs.values(), default=0))
    objects = dict(_objects(stack, bucket))
    found.outputs = sum(1 for key in objects if key.startswith("out/"))
    found.failures = sum(1 for key in objects if key.startswith("failed/"))
    with stack.database() as connection:
        rows = connection.execute(_ROWS, [endpoint]).fetchall()
    seen = Counter(row[0] for row in rows)
    found.faults += [f"{key} was accepted and is missing" for key in promises.keys() - seen.keys()]
    found.faults += [f"{key} is there {count} times" for key, count in seen.items() if count > 1]
    for row in rows:
        promise = promises.get(row[0])
        found.rows[row[1]] += 1
        found.unasked += promise is None
        found.again += row[2] > 1
        found.faults += _faults(bucket, objects, row, promise)
    found.faults += [f"object {key} belongs to no request" for key in objects]
    return found


def _faults(bucket: str, objects: dict[str, str], row: tuple[str, ...], promise: Promise | None) -> Iterator[str]:
    """What is wrong with one request; its objects are taken out of `objects`."""
    name, state, _, output_at, failure_at = row
    output, failure = (objects.pop(place.removeprefix(f"s3://{bucket}/"), None) for place in (output_at, failure_at))
    if promise is not None and (promise.output_location, promise.failure_location) != (output_at, failure_at):
        yield f"{name} was promised another place"
    if state not in ENDED:
        yield f"{name} has no outcome: it is {state}"
    elif (output is not None, failure is not None) != (state == "completed", state != "completed"):
        yield f"{name} is {state}, with {'an' if output else 'no'} output and {'a' if failure else 'no'} failure object"
    elif output is not None and promise is not None and output != promise.md5:
        yield f"{name} has another request's answer"


def _objects(stack: Stack, bucket: str) -> Iterator[tuple[str, str]]:
    """Key and MD5 of every object."""
    for page in stack.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for each in page.get("Contents", []):
            yield each["Key"], each["ETag"].strip('"')
