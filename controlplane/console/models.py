"""The console's users under the name that everybody uses."""

from django.contrib.auth.models import User


class Operator(User):
    """A user of the console, with one role (`auth.roles`)."""

    class Meta:
        proxy = True
