"""One Spark for all tests: two cores, four tries for a task, everything that it logs in a folder."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import labeldp as labeldp

LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c{{1}}: %m%n%ex
logger.netty.name = io.netty
logger.netty.level = warn
logger.storage.name = org.apache.spark.storage
logger.storage.level = info
"""


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes its log, at the level DEBUG, and its events."""
    return tmp_path_factory.mktemp("spark_logs")


@pytest.fixture(scope="session")
def spark(logs: Path) -> Iterator[Any]:
    """A session of Spark."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    (logs / "log4j2.properties").write_text(LOG4J.format(log=logs / "spark.log"))
    (logs / "events").mkdir()
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (logs / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logs / 'log4j2.properties'}",
        "spark.sql.warehouse.dir": (logs / "warehouse").as_uri(),
        "spark.driver.host": "localhost",
    }
    builder = SparkSession.builder.master("local[2,4]").appName("labeldp tests")
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
