"""What is remembered of failed logins, in the control database: all API processes see the same."""

from django.db import models


class LoginAttempts(models.Model):
    """Failed logins of an account, an address or a browser in the running window: see `tenants/throttle.py`."""

    who = models.CharField(max_length=200, primary_key=True)
    count = models.IntegerField()
    since = models.DateTimeField()

    class Meta:
        db_table = "login_attempts"
