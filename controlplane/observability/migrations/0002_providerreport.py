from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("observability", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ProviderReport",
            fields=[
                ("provider", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("zones", models.JSONField()),
                ("markets", models.JSONField()),
                ("free", models.JSONField(null=True)),
                ("otherwise", models.PositiveIntegerField(null=True)),
                ("seen_at", models.DateTimeField()),
            ],
        ),
    ]
