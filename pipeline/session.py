"""A Spark session as every job wants it: UTC, Python workers of this environment, quiet."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mqueue.core.conf import ROOT
from pipeline import classes
from pipeline.java import find_java


@contextmanager
def session(name: str, master: str = "local[2]", **settings: str) -> Iterator[SparkSession]:
    """Ends with its block. `settings` are Spark's own, with dots written as double underscores."""
    os.environ["JAVA_HOME"] = str(find_java().parent.parent)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    prepare_workers()
    builder = SparkSession.builder.appName(name).master(master)
    given = {key.replace("__", "."): value for key, value in settings.items()}
    usual = DEFAULTS | (ON_THIS_MACHINE if master.startswith("local") else {})
    usual["spark.driver.extraJavaOptions"] = f"{QUICK} {classes.use()}"
    for key, value in (usual | given).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def connected_session(name: str, remote: str) -> Iterator[SparkSession]:
    """By Spark Connect. The server's workers need this code and its environment."""
    spark = SparkSession.builder.appName(name).remote(remote).getOrCreate()
    for key in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions"):
        spark.conf.set(key, DEFAULTS[key])
    try:
        yield spark
    finally:
        spark.stop()


def end_java() -> None:
    """The process that `stop` leaves with all its memory until we end, which nobody here needs any more."""
    gateway = SparkContext._gateway  # noqa: SLF001  the only way to the process
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  who needs one begins another
    gateway.shutdown()
    if java := getattr(gateway, "proc", None):
        java.stdin.close()
        java.wait(JAVA_ENDS_S)


def prepare_workers() -> None:
    """Or they take whatever `python3` is first on the PATH, and do not find this code from another folder."""
    for name, value in KEEP_MEMORY.items():
        os.environ.setdefault(name, value)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *(path for path in before if path not in ("", str(ROOT)))])


# What a task lets go it wants again at once. glibc gives large pieces back to the kernel each time, which hands them
# out anew page by page: a third of the time of a task that computes, in the kernel, where nobody can take its turn.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
JAVA_ENDS_S = 120  # while it may be writing down its classes
# Half the time to start; what the JVM itself computes is little.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "512m",
}
# A cluster's executors have to find the driver, and know it by its own name.
ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.extraJavaOptions": QUICK,
}
