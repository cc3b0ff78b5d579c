"""Room in each page for the next version of its rows.

A request's row is written four times. The one between its claim and its outcome changes no indexed column: with room in
the page, PostgreSQL leaves all indexes alone.
"""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('invocations', '0003_search'),
    ]

    operations = [
        migrations.RunSQL(
            'ALTER TABLE invocations_asyncinvocation SET (fillfactor = 70)',
            'ALTER TABLE invocations_asyncinvocation RESET (fillfactor)',
        ),
    ]
