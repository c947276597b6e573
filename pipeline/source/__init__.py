"""The Spark data source `mqueue`: the log as a table and as a stream, topics as a sink.

pipeline.source.register(spark)
spark.read.format("mqueue").option("namespace", "acme").option("topic", "leads").load()
"""

from typing import Any

from pipeline.source.datasource import Mqueue, PushingMqueue

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: Any) -> None:
    """For this session, with filter pushdown where its setting is on by now."""
    is_on = spark.conf.get(PUSHDOWN, "false") == "true"
    spark.dataSource.register(PushingMqueue if is_on else Mqueue)
