from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0003_attempt_by_offering'),
    ]

    operations = [
        migrations.AddField(
            model_name='instance',
            name='leave',
            field=models.CharField(blank=True, choices=[('drain', 'Drain'), ('replace', 'Replace')], db_default='', max_length=8),
        ),
        migrations.AddField(
            model_name='instance',
            name='leave_asked_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='instance',
            name='leave_asked_by',
            field=models.CharField(blank=True, db_default='', max_length=160),
        ),
    ]
