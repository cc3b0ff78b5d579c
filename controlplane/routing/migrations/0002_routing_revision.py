"""The sequence that gives every change of the routing table a higher revision."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("routing", "0001_initial")]
    operations = [
        migrations.RunSQL("CREATE SEQUENCE routing_revision AS bigint", "DROP SEQUENCE routing_revision"),
    ]
