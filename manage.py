#!/usr/bin/env python
"""Django's command line, and ours: `manage.py help` lists every command."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqueue.settings")
    from django.core.management import execute_from_command_line

    from mqueue.core.conf import ConfError

    try:
        execute_from_command_line(sys.argv)
    except ConfError as error:
        sys.exit(f"mqueue: the configuration cannot be used: {error}")
