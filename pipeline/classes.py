"""The classes that Spark loads, kept as the JVM has them in memory: then it starts in half the time.

    python -m pipeline.classes        after what `launch/install.py pipeline` installs

A JVM takes such a file only if it is its own, of the same Java and the same jars, and else does without.
"""

import os
import sys
from pathlib import Path

KEPT = Path(sys.prefix) / "spark-classes.jsa"
LOG = "-Xlog:disable -Xlog:all=error:stderr"  # or it says on standard output that a file is another Java's


def use() -> str:
    """Options of a JVM."""
    return f"{LOG} -XX:SharedArchiveFile={KEPT}" if KEPT.exists() else ""


def keep() -> bool:
    """Load what a run loads, and write it down; False where this Java cannot."""
    from pipeline.session import QUICK, end_java, session

    draft = KEPT.with_name(f".{KEPT.name}.{os.getpid()}")
    with session("classes", spark__driver__extraJavaOptions=f"{QUICK} {LOG} -XX:ArchiveClassesAtExit={draft}") as spark:
        numbers = spark.range(0, 4, 1, 2)
        moved = numbers.mapInArrow(lambda batches: batches, "id long").repartition(2, "id")
        moved.selectExpr("id", "regexp_replace(cast(id AS string), '[0-9]', 'n') AS text", "id % 2 AS half").groupBy(
            "half"
        ).agg({"text": "max", "id": "count"}).toArrow()
        moved.toLocalIterator(prefetchPartitions=True).__next__()
        moved.collect()
    end_java()
    if draft.exists():
        draft.replace(KEPT)
    return KEPT.exists()


if __name__ == "__main__":
    sys.exit(0 if keep() else "this Java keeps no classes; Spark starts as fast as it does")
