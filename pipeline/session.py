"""A Spark session as every job wants it: UTC, Python workers of this environment, quiet."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from pipeline.java import find_java


@contextmanager
def session(name: str, master: str = "local[2]", **settings: str) -> Iterator[SparkSession]:
    """Ends with its block. `settings` are Spark's own, with dots written as double underscores."""
    find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # or workers take whatever `python3` is first on the PATH
    builder = SparkSession.builder.appName(name).master(master)
    given = {key.replace("__", "."): value for key, value in settings.items()}
    for key, value in (DEFAULTS | given).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        yield spark
    finally:
        spark.stop()


DEFAULTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "1g",
}
