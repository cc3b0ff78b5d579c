"""`manage.py async_requests`: what operators see of asynchronous requests, and what they do about them."""

from datetime import timedelta

import pytest
from django.core.management.base import CommandError

from controlplane.observability.models import Event
from tests.controlplane.console.test_money_commands import said
from tests.controlplane.invocations.letters import endpoint, letter, states
from tests.fakes.clock import START, FakeClock

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_clock")]


def run(*words: object) -> str:
    """What `manage.py async_requests` prints for these words."""
    return said("async_requests", *(str(word) for word in words))


def test_search_prints_a_line_for_each_with_its_error() -> None:
    at = endpoint(START)
    dead, done = letter(at, START, inference_id="mine"), letter(at, START + timedelta(seconds=1), "completed")
    told = run("search").splitlines()
    assert [line.split()[0] for line in told] == [str(done.id), str(dead.id)]
    assert "failed  model_server_error: It went wrong." in told[1]
    assert str(done.id) not in run("search", "--inference-id", "mine")
    assert run("search", "--state", "expired") == "No request.\n"
    assert "There are more" in run("search", "--limit", 1, "--oldest-first")
    assert str(dead.id) not in run("search", "--after", "2026-11-01T12:00:01")
    assert run("search", "--account", "000000000000") == "No request.\n"


def test_show_tells_every_step_in_words() -> None:
    row = letter(endpoint(START), START, timeline=[[START.isoformat(), "retried", 1, "The model gave no answer."]])
    told = run("show", row.id)
    assert "attempt 0  accepted   The request was accepted." in told
    assert "attempt 1  retried    It went back into the queue: The model gave no answer." in told
    assert row.output_location in told


def test_words_of_a_model_steer_no_terminal_and_forge_no_line() -> None:
    words = 'Received server error (500) from model with message "\x1b[2J\r\nNo request.\u202e".'
    row = letter(endpoint(START), START, outcome_text=words, timeline=[[START.isoformat(), "failed", 1, words]])
    shown = r'message "\x1b[2J\r\nNo request.\u202e"'
    for told in (run("show", row.id), run("search"), run("dead")):
        assert shown in told
        assert "\x1b" not in told
        assert "No request." not in told.splitlines()


def test_dead_counts_by_endpoint_and_kind_and_lists_the_oldest() -> None:
    for name in ("one", "two"):
        at = endpoint(START, name)
        for second in range(2):
            letter(at, START + timedelta(seconds=second), failure_kind="timeout")
    told = run("dead", "--limit", 1)
    assert told.splitlines()[0].split()[:4] == ["one", "failed", "timeout", "2"]
    assert told.splitlines()[1].split()[:4] == ["two", "failed", "timeout", "2"]
    assert told.count("s3://") == 0
    assert "two" not in run("dead", "--endpoint", "one")


def test_redrive_puts_back_one_or_a_class_and_says_by_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    at = endpoint(START)
    one, *rest = [letter(at, START) for _ in range(4)]
    assert run("redrive", one.id) == f"Request {one.id} goes back into the queue.\n"
    assert "3 of 3 dead letters would go" in run("redrive", "--endpoint", "e", "--dry-run")
    assert states(rest) == ["failed"] * 3
    assert "2 of 3 dead letters go" in run("redrive", "--endpoint", "e", "--limit", 2, "--kind", "model_server_error")
    assert {event.detail["actor"] for event in Event.objects.all()} == {"operator ada"}


def test_cancel_decides_the_outcome() -> None:
    row = letter(endpoint(START), START, "queued")
    assert run("cancel", row.id) == f"Request {row.id} is cancelled.\n"
    row.refresh_from_db()
    assert row.failure_kind == "cancelled"


@pytest.mark.parametrize("inference_id", ["order-7", "00000000-0000-4000-8000-000000000007"])
def test_a_request_is_named_by_the_inference_id_that_its_caller_knows(inference_id: str) -> None:
    at = endpoint(START)
    row, waiting = letter(at, START, inference_id=inference_id), letter(at, START, "queued", inference_id="waits")
    assert run("show", inference_id) == run("show", row.id)
    assert run("redrive", inference_id) == f"Request {row.id} goes back into the queue.\n"
    assert run("cancel", "waits") == f"Request {waiting.id} is cancelled.\n"


def test_an_inference_id_that_several_share_names_none_of_them() -> None:
    at = endpoint(START)
    rows = [letter(at, START + timedelta(seconds=second), "queued", inference_id="twice") for second in range(2)]
    with pytest.raises(CommandError, match=f"name one by its own id: {rows[1].id}, {rows[0].id}"):
        run("cancel", "twice")
    assert states(rows) == ["queued"] * 2
    assert run("cancel", rows[0].id) == f"Request {rows[0].id} is cancelled.\n"


def test_the_id_of_another_accounts_request_names_nothing() -> None:
    row = letter(endpoint(START), START, "queued")
    with pytest.raises(CommandError, match="There is no asynchronous request"):
        run("show", row.id, "--account", "000000000000")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "00000000-0000-0000-0000-000000000000"), "There is no asynchronous request"),
        (("cancel", "not-an-id"), "no asynchronous request with the id or InferenceId not-an-id"),
        (("redrive",), "either one request or an --endpoint"),
        (("redrive", "one", "--endpoint", "e"), "either one request or an --endpoint"),
        (("redrive", "--endpoint", "none"), "Could not find endpoint"),
        (("redrive", "--endpoint", "e", "--limit", "0"), "a whole number from 1 to 10000"),
        (("redrive", "--endpoint", "e", "--time-to-live", "59"), "invalid seconds_to_live value"),
        (("search", "--after", "yesterday"), "invalid iso_time value"),
        (("search", "--state", "lost"), "invalid choice"),
    ],
)
def test_it_says_what_is_wrong(fake_clock: FakeClock, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        run(*words)
