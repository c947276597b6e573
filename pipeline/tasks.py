"""The pipeline's daily work, as Celery's tasks. Each run is a process of its own: Spark's memory goes with it."""

import logging
import subprocess
import sys

from celery import shared_task

from mqueue.core.conf import ROOT, conf
from mqueue.core.linux import leash
from pipeline.errors import VerificationFailed

log = logging.getLogger(__name__)
DAILY = ("archive", "usage", "failures", "retain", "compact", "gc")
QUIET = (0, 3, 4)  # done, nothing to do, another run is at it


@shared_task(name="mqueue.pipeline")
def pipeline(*verbs: str) -> int:
    """Run verbs one after the other; answers the worst exit code. None waits for another: what could not be archived
    stays on its shard. But where a copy was wrong nothing is deleted from the lake, which may need it."""
    if not conf().lake.is_on:
        return 0
    worst = 0
    for verb in verbs or DAILY:
        if verb == "gc" and worst == VerificationFailed.exit_code:
            log.error("pipeline gc waits: a copy was not what its origin is")
            continue
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "pipeline", verb],
            cwd=ROOT,
            start_new_session=True,  # which steps aside as a whole
            preexec_fn=leash,  # and so nobody else would end it with us
        )
        if done.returncode not in QUIET:
            log.error("pipeline %s ended with %d: run `manage.py pipeline %s` to see why", verb, done.returncode, verb)
            worst = max(worst, done.returncode) or done.returncode
    return worst
