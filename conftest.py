"""Networks are tested where torch is, Spark where pyspark is: `make test-torch`, `make test-spark`."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = (
    [] if find_spec("torch") else ["src/labeldp/networks/*", "tests/networks", "papers/tests/*/test_networks.py"]
)
collect_ignore_glob += [] if find_spec("pyspark") else ["tests/spark"]

PYSPARK = (
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:unclosed:ResourceWarning",
    "ignore:distutils Version classes:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark leaves sockets to the garbage collector, and compares versions as Python did once."""
    for item in items:
        if "tests/spark/" in item.nodeid or "how-to/spark.md" in item.nodeid:
            for each in PYSPARK:
                item.add_marker(pytest.mark.filterwarnings(each))
