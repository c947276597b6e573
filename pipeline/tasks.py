"""The pipeline's daily work, as Celery's tasks. Each run is a process of its own: Spark's memory goes with it."""

import logging
import subprocess
import sys

from celery import shared_task

from mqueue.core.conf import ROOT, conf

log = logging.getLogger(__name__)
DAILY = ("archive", "usage", "failures", "retain", "compact", "gc")
QUIET = (0, 3, 4)  # done, nothing to do, another run is at it


@shared_task(name="mqueue.pipeline")
def pipeline(*verbs: str) -> int:
    """Run verbs one after the other; stops at the first that fails, and answers its exit code."""
    if not conf().lake.is_on:
        return 0
    for verb in verbs or DAILY:
        done = subprocess.run([sys.executable, str(ROOT / "manage.py"), "pipeline", verb], cwd=ROOT)
        if done.returncode not in QUIET:
            log.error("pipeline %s ended with %d: run `manage.py pipeline %s` to see why", verb, done.returncode, verb)
            return done.returncode
    return 0
