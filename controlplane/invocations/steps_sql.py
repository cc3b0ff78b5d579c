"""Appending to a request's timeline, as SQL: the one place that knows how the column `timeline` grows (see `steps`).

A step is appended by the statement that makes it true. Pure: texts of statements and nothing else.
"""

from controlplane.invocations.steps import KEPT_FIRST, LIMIT, Step


def appended(count: int, steps: str = "%(steps)s::jsonb") -> str:
    """The assignment that appends `count` steps, an expression or the parameter `steps` with JSON of them.

    A timeline that has reached its limit first loses as many from its middle.
    """
    shortened = "timeline" + f" - {KEPT_FIRST}" * count
    return f"timeline = (CASE WHEN jsonb_array_length(timeline) >= {LIMIT} THEN {shortened} ELSE timeline END) || {steps}"


def one_step(step: Step, attempt: str, detail: str) -> str:
    """The expression of one step, at the parameter `at` (a text); the attempt and the detail are expressions too."""
    return f"jsonb_build_array(jsonb_build_array(%(at)s::text, '{step}', {attempt}, coalesce({detail}, '')))"
