"""Private labels in data frames of Spark: released where they are; needs pyspark (`pip install 'labeldp[spark]'`)."""

from labeldp.spark.release import release
from labeldp.spark.session import start_session
from labeldp.spark.table import SparkTable

__all__ = ["SparkTable", "release", "start_session"]
