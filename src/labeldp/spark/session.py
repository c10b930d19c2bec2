"""A session of Spark, and what must be installed for one."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from labeldp.privacy import InputError, LabelDPError


def require_spark() -> None:
    """Raise InputError if pyspark is not installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise InputError("Spark needs pyspark: pip install 'labeldp[spark]'") from None


def require_java() -> None:
    """Raise InputError if there is no Java to start Spark with."""
    home = os.environ.get("JAVA_HOME")
    if not ((Path(home) / "bin" / "java").is_file() if home else shutil.which("java")):
        where = f"JAVA_HOME is {home}, which holds none" if home else "no java is on the PATH"
        raise InputError(
            f"Spark needs Java 17, and {where}: install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
            "macOS: brew install openjdk@17), or set JAVA_HOME to where it is"
        )


def start_session(master: str, name: str = "labeldp") -> Any:
    """Return a Spark session, the one that is active or a new one.

    Args:
        master: where Spark runs: "local[4]" for four cores of this machine, "yarn", "spark://host:7077", "k8s://…".
        name: of the application.

    Raises:
        InputError: pyspark or Java is not installed, or Spark does not know the master.
    """
    require_spark()
    require_java()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers have the packages of the driver
    builder = SparkSession.builder.master(master).appName(name).config("spark.ui.showConsoleProgress", "false")
    try:
        return builder.getOrCreate()
    except Exception as error:
        first = str(error).strip().splitlines()
        raise InputError(
            f"master: Spark could not be started on {master!r}: {first[0] if first else type(error).__name__}"
        ) from None


def spark_failed(error: Exception) -> LabelDPError:
    """Return what is said of an error of Spark; its own words may quote cells of the table, and stay in its log."""
    text = str(error)
    if "No module named 'labeldp'" in text:
        return LabelDPError("labeldp must be installed on every worker of the cluster: pip install labeldp")
    if "No module named 'pyarrow'" in text:
        return LabelDPError("pyarrow must be installed on every worker; is PYSPARK_PYTHON the Python that has it?")
    return LabelDPError(
        f"Spark could not finish ({type(error).__name__}): a file cannot be read, or workers failed; its log says more"
    )
