"""The lists beside the front page: events, orphans, access keys and tokens."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.auth.models import AccessKey, Account, ApiToken, Installation
from controlplane.auth.roles import Role
from controlplane.console.event_selectors import PER_PAGE, Search, find
from controlplane.core.actor import acting
from controlplane.core.ids import new_uuid
from controlplane.observability.events import Subject, record
from controlplane.observability.models import Event
from controlplane.orphans.models import Orphan, Sweep
from controlplane.orphans.states import OrphanWish
from tests.controlplane.console.people import logged_in, text_of
from tests.fakes.clock import START, FakeClock

pytestmark = pytest.mark.django_db

ACCOUNT = settings.HEADRACE.account_id


@pytest.fixture(autouse=True)
def account(fake_clock: FakeClock) -> Account:
    """The installation's account, at START."""
    return Account.objects.get_or_create(account_id=ACCOUNT, defaults={"created_at": START})[0]


def happen(reason: str = "Launched", name: str = "chat", actor: str = "headrace", at: datetime = START) -> None:
    """Something happens to an endpoint."""
    with acting(actor):
        record(Subject(ACCOUNT, "endpoint", new_uuid(), name), reason, f"{reason} of {name}.", now=at)


class TestEvents:
    """Everything that happened, page by page, by reason, name and actor."""

    def test_pages_lead_back_and_forth_without_gaps(self) -> None:
        for place in range(PER_PAGE * 2 + 7):
            happen(name=f"e{place}")
        everything = list(Event.objects.order_by("-id").values_list("id", flat=True))
        first = find(Search())
        second = find(Search(before=first.events[-1].id))
        third = find(Search(before=second.events[-1].id))
        assert [event.id for page in (first, second, third) for event in page.events] == everything
        assert (first.has_later, first.has_earlier, third.has_earlier) == (False, True, False)
        back = find(Search(after=third.events[0].id))
        assert [event.id for event in back.events] == [event.id for event in second.events]
        assert back.has_later

    def test_the_page_filters_by_reason_name_and_actor(self) -> None:
        happen("Launched", "chat", "headrace")
        happen("Scaled", "chat", "operator alice")
        happen("Scaled", "embed", "key AKIA")
        client = logged_in(Role.VIEWER)
        for query, told in (
            ("reason=Scaled", ["Scaled of embed.", "Scaled of chat."]),
            ("subject=chat", ["Scaled of chat.", "Launched of chat."]),
            ("actor=operator+alice", ["Scaled of chat."]),
            ("reason=Launched&subject=embed", []),
        ):
            said = text_of(client.get(f"/admin/events/?{query}"))
            sentences = ("Launched of chat.", "Scaled of chat.", "Scaled of embed.")
            assert {each for each in sentences if each in said} == set(told), query
        assert "None matches." in text_of(client.get("/admin/events/?reason=Launched&subject=embed"))

    def test_every_reason_that_occurred_can_be_chosen(self) -> None:
        for reason in ("Zeta", "Alpha", "Alpha", "Mid"):
            happen(reason)
        page = logged_in(Role.VIEWER).get("/admin/events/").content.decode()
        places = [page.index(f"<option >{reason}</option>") for reason in ("Alpha", "Mid", "Zeta")]
        assert places == sorted(places)

    @pytest.mark.parametrize(
        "query",
        [
            "before=x",
            "after=-1",
            "subject=%00",
            "reason=a%00b",
            "actor=%00",
            "before=99999999999999999999",
            "before=\u0663",
        ],
    )
    def test_nonsense_in_the_address_is_taken_for_nothing(self, query: str) -> None:
        happen()
        said = text_of(logged_in(Role.VIEWER).get(f"/admin/events/?{query}"))
        assert ("Launched of chat." in said) == (query != "reason=a%00b")

    def test_the_queries_are_as_many_for_many_events(self) -> None:
        client = logged_in(Role.VIEWER)
        counts = []
        for _ in range(2):
            for place in range(60):
                happen(name=f"e{place}")
            with CaptureQueriesContext(connection) as queries:
                client.get("/admin/events/")
            counts.append(len(queries))
        assert counts == [5, 5]


class TestOrphans:
    """What nobody has, what it costs, and what an operator wants done."""

    def orphan(self, **changes: Any) -> Orphan:
        facts = {
            "provider": "simulated",
            "provider_id": "i-1",
            "launched_at": START,
            "token": "t",
            "instance_type": "ml.g5.xlarge",
        }
        rest = {
            "zone": "a",
            "hourly_price": 2.0,
            "found_at": START,
            "seen_at": START,
            "state_since": START,
            "origin": "Unknown",
        }
        return Orphan.objects.create(**{**facts, **rest, **changes})

    @pytest.fixture(autouse=True)
    def installation(self) -> None:
        Installation.objects.get_or_create(id=1, defaults={"owner": "tests", "created_at": START})

    def test_each_is_told_with_its_cost_and_operators_may_act(self, fake_clock: FakeClock) -> None:
        self.orphan()
        fake_clock.step(7200)
        viewer, operator = (text_of(logged_in(role).get("/admin/orphans/")) for role in (Role.VIEWER, Role.OPERATOR))
        assert "1 orphan live, 2.000 USD/h together; 4.00 USD so far." in viewer
        assert "End it" not in viewer
        assert "End it" in operator

    def test_ending_stores_the_wish_with_its_author(self) -> None:
        row = self.orphan()
        answer = logged_in(Role.OPERATOR, "alice").post(f"/admin/orphans/{row.pk}/end/", follow=True)
        assert "is to be ended" in text_of(answer)
        row.refresh_from_db()
        assert (row.wish, row.wished_by) == (OrphanWish.END, "operator alice")
        assert Event.objects.get(reason="OrphanWish").actor == "operator alice"

    def test_one_without_an_endpoint_cannot_be_given_back(self) -> None:
        row = self.orphan()
        answer = logged_in(Role.OPERATOR).post(f"/admin/orphans/{row.pk}/adopt/", follow=True)
        assert "cannot be adopted" in text_of(answer)
        assert "no orphan 404" in text_of(logged_in(Role.OPERATOR, "bob").post("/admin/orphans/404/end/", follow=True))

    def test_a_sweep_that_is_held_back_waits_for_a_confirmation(self) -> None:
        self.orphan()
        Sweep.objects.update_or_create(pk=1, defaults={"held_since": START, "held_why": "the database is older"})
        assert "Confirm that they" not in text_of(logged_in(Role.OPERATOR).get("/admin/orphans/"))
        client = logged_in(Role.ADMINISTRATOR)
        assert "held back and ends nothing: the database is older." in text_of(client.get("/admin/orphans/"))
        assert "Confirmed: the next sweep deals with 1 orphan." in text_of(
            client.post("/admin/orphans/confirm/", follow=True)
        )
        assert Sweep.objects.get().held_since is None

    def test_those_that_are_gone_are_shown_on_request(self) -> None:
        self.orphan(state="gone")
        client = logged_in(Role.VIEWER)
        assert "No orphans" in text_of(client.get("/admin/orphans/"))
        assert "i-1" in text_of(client.get("/admin/orphans/?all"))


class TestKeysAndTokens:
    """Administrators make keys and tokens, see their secrets once, and take them back."""

    def test_a_key_is_made_switched_off_on_and_deleted(self, account: Account) -> None:
        client = logged_in(Role.ADMINISTRATOR, "root")
        for _ in range(2):
            client.post("/admin/access-keys/create/", {"account": account.pk})
        key = AccessKey.objects.first()
        assert key is not None
        for to, is_active in (("off", False), ("on", True)):
            client.post(f"/admin/access-keys/{key.pk}/switch/", {"to": to})
            key.refresh_from_db()
            assert key.is_active is is_active
        assert "is deleted." in text_of(client.post(f"/admin/access-keys/{key.pk}/delete/", follow=True))
        assert AccessKey.objects.count() == 1
        assert set(Event.objects.values_list("actor", flat=True)) == {"operator root"}

    def test_the_last_key_stays(self, account: Account) -> None:
        client = logged_in(Role.ADMINISTRATOR)
        client.post("/admin/access-keys/create/", {"account": account.pk})
        key = AccessKey.objects.get()
        assert "is the last active one" in text_of(client.post(f"/admin/access-keys/{key.pk}/delete/", follow=True))
        assert AccessKey.objects.get().is_active

    def test_a_token_is_shown_once_and_revoked(self, account: Account) -> None:
        client = logged_in(Role.ADMINISTRATOR, "root")
        form = {"name": "ci", "role": "viewer", "days": "30", "account": account.pk}
        made = client.post("/admin/tokens/create/", form).content.decode()
        token = ApiToken.objects.get()
        assert f">{token.prefix}" in made
        assert (token.created_by, token.expires_at) == ("operator root", START + timedelta(days=30))
        secret = made.split('<code class="hr-secret">')[1].split("<")[0]
        assert secret not in client.get("/admin/tokens/").content.decode()
        assert "is revoked." in text_of(client.post(f"/admin/tokens/{token.pk}/revoke/", follow=True))
        assert "revoked" in text_of(client.get("/admin/tokens/"))

    def test_what_is_wrong_with_a_token_is_said_beside_its_form(self, account: Account) -> None:
        client = logged_in(Role.ADMINISTRATOR)
        form = {"name": "ci", "role": "viewer", "days": "9999", "account": account.pk}
        assert "less than or equal to 365" in text_of(client.post("/admin/tokens/create/", form))
        assert not ApiToken.objects.exists()
