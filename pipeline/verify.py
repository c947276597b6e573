"""verify: read every file of the lake again and hold it against the manifest."""

from collections.abc import Callable

from mqueue.core.conf import Conf
from pipeline.chunks import STATS_DDL
from pipeline.errors import NothingToDo, VerificationFailed
from pipeline.manifest import compare, sums_of
from pipeline.models import File
from pipeline.rereading import reader
from pipeline.spark import Sessions

Say = Callable[[str], None]


def verify(conf: Conf, sessions: Sessions, say: Say) -> None:
    files = list(File.objects.filter(retired_at=None).order_by("path").select_related("partition"))
    if not files:
        raise NothingToDo("The lake is empty")
    wanted = [(file.path, file.partition.parent) for file in files]
    numbers = sessions.get().range(0, len(files), 1, min(len(files), 64))
    rows = numbers.mapInArrow(reader(wanted, conf.lake.url), STATS_DDL).collect()
    wrong = []
    for number, file in enumerate(files):
        try:
            found = sums_of(row for row in rows if row.chunk == number)
            compare(file, found, sums_of(file.parts.all()))
        except VerificationFailed as error:
            wrong.append(str(error))
            say(str(error))
    say(f"{len(files) - len(wrong)} of {len(files)} files are what they have to be")
    if wrong:
        raise VerificationFailed(f"{len(wrong)} of {len(files)} files are damaged or gone")
