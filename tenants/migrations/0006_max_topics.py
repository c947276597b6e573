import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0005_weight")]
    operations = [
        migrations.AddField(
            model_name="quota",
            name="max_topics",
            field=models.BigIntegerField(
                blank=True,
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000000000000),
                ],
            ),
        ),
    ]
