"""The timeline as it is told."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.invocations import timeline
from controlplane.invocations.steps import LIMIT, Step
from tests.fakes.clock import START

AT = START.isoformat()


def test_every_step_has_a_sentence_with_and_without_a_detail() -> None:
    for step in Step:
        [_, bare] = timeline.tell(START, [[AT, step, 1, ""]])
        [_, full] = timeline.tell(START, [[AT, step, 1, "because {braces} matter."]])
        assert bare.sentence.endswith(".")
        assert "{" not in bare.sentence
        assert "because {braces} matter" in full.sentence
        assert not full.sentence.endswith("..")


def test_a_story_begins_with_the_acceptance_and_keeps_its_order() -> None:
    told = timeline.tell(START, [[AT, "claimed", 1, "i-1"], [AT, "retried", 1, "no answer"], [AT, "claimed", 2, "i-2"]])
    assert [(step.step, step.attempt) for step in told] == [("accepted", 0), ("claimed", 1), ("retried", 1), ("claimed", 2)]
    assert told[2].sentence == "It went back into the queue: no answer."


def test_a_cancellation_is_said_by_whom_and_then_told() -> None:
    told = timeline.tell(START, [[AT, "cancelled", 1, "by key AKID"], [AT, "claimed", 2, ""], [AT, "cancelled", 2, ""]])
    assert [step.sentence for step in told[1:]] == [
        "It was cancelled by key AKID.",
        "A worker took it to tell its outcome.",
        "Its cancellation was told.",
    ]


@given(st.lists(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner, max_size=5)), max_size=9))
def test_what_cannot_be_read_is_left_out_and_never_raises(steps: list[object]) -> None:
    assert timeline.tell(START, steps)[0].step == "accepted"  # type: ignore[arg-type]


def test_a_gap_is_told_once_the_timeline_is_full() -> None:
    assert not timeline.has_gap([0] * (LIMIT - 1))
    assert timeline.has_gap([0] * LIMIT)
