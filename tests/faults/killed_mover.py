"""python -m tests.faults.killed_mover LINE VERB …: `manage.py reshard VERB …` that kills itself after a line."""

import os
import signal
import sys

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")
django.setup()

from daemons.management.commands.reshard import Command  # noqa: E402  after the settings


class Killed(Command):
    def _say(self, text: str) -> None:
        super()._say(text)
        if text.startswith(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)


call_command(Killed(), *sys.argv[2:])
