"""Less to keep in step for each request.

- What runs is found by its endpoint, so that renewing a lease touches no index.
- No constraint between a payload and its request, which one statement writes: a look-up for each request less.
- `redriven_at`: since when a request that was put back waits.
"""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('invocations', '0004_room_for_updates'),
    ]

    operations = [
        migrations.AddField(
            model_name='asyncinvocation',
            name='redriven_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.RemoveIndex(
            model_name='asyncinvocation',
            name='invocation_leases',
        ),
        migrations.AddIndex(
            model_name='asyncinvocation',
            index=models.Index(condition=models.Q(('state', 'running')), fields=['endpoint_id'], name='invocation_leases'),
        ),
        migrations.AlterField(
            model_name='asyncpayload',
            name='invocation',
            field=models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='invocations.asyncinvocation'),
        ),
    ]
