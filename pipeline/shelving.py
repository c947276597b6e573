"""Where the shelf of a run stands: on this machine, or in the lake, where the tasks are on others."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqueue.core.conf import Conf
from pipeline.errors import PipelineError
from pipeline.shelf import Shelf
from pipeline.spark import Sessions
from shards.models import Deployment


@contextmanager
def shelf(conf: Conf, sessions: Sessions, run: str) -> Iterator[Shelf]:
    """On this machine, or in the lake, where the tasks are on others. What a killed run has left is cleared."""
    if sessions.is_here:
        root = Path(tempfile.gettempdir()) / f"mqueue-shelf-{run}"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(mode=0o700)  # it may hold bodies of messages
        try:
            yield Shelf(str(root), "parts")
        finally:
            shutil.rmtree(root, ignore_errors=True)
        return
    if not conf.lake.url:
        raise PipelineError("Tasks on other machines hand over through the lake: set LAKE_URL")
    found = Shelf(conf.lake.url, f"{Deployment.objects.get().identity}/shelf/{run}")
    found.clear()
    try:
        yield found
    finally:
        found.clear()
