"""`manage.py token`: a bearer token for the OpenAI-style paths, made offline from an access key that is stored here."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.auth import bearer
from controlplane.auth.models import AccessKey
from controlplane.auth.secrets import decrypt
from controlplane.auth.sigv4 import Key
from controlplane.core import clock

SERVICE = "sagemaker"


class Command(BaseCommand):
    """Prints the token and nothing else, so that it can be put into a variable."""

    help = "Print a bearer token for /endpoints/NAME/openai/v1, good for 12 hours at most."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--key", help="the access key's id; by default the bootstrap key, or the only one there is")
        parser.add_argument("--seconds", type=int, default=bearer.MOST_SECONDS, help="how long it is good for")

    def handle(self, *args: Any, **options: Any) -> None:
        row = _key(options["key"] or settings.HEADRACE.access_key_id)
        key = Key(row.access_key_id, decrypt(row.secret_encrypted, settings.HEADRACE.secret_key), row.account_id)
        try:
            token = bearer.issue(
                key, region=settings.HEADRACE.region, service=SERVICE, now=clock.now(), seconds=options["seconds"]
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(token)


def _key(access_key_id: str) -> AccessKey:
    keys = AccessKey.objects.filter(is_active=True)
    found = list(keys.filter(access_key_id=access_key_id) if access_key_id else keys[:2])
    if len(found) != 1:
        raise CommandError(f"There is no active access key {access_key_id}." if access_key_id else "Name one with --key.")
    return found[0]
