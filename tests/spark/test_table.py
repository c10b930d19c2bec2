"""What must be installed for Spark, and what is said where it is not, or where it fails."""

import subprocess
import sys
from pathlib import Path

import pytest

import labeldp as ldp
from labeldp.spark import start_session
from labeldp.spark.table import require_java, spark_failed


def test_no_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ldp.privacy.InputError, match=r"Spark needs Java 17, and no java is on the PATH: install it"):
        start_session("local[1]")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ldp.privacy.InputError, match=f"JAVA_HOME is {tmp_path}, which holds none"):
        require_java()


def test_no_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ldp.privacy.InputError, match=r"Spark needs pyspark: pip install 'labeldp\[spark\]'"):
        start_session("local[1]")


def test_the_rooms_load_without_pyspark() -> None:
    code = "import labeldp.spark as room; [getattr(room, name) for name in room.__all__]"
    code += "; import sys; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_spark_says_is_not_repeated() -> None:
    """A cast that fails quotes the cell that it failed on."""
    said = spark_failed(ValueError("[CAST_INVALID_INPUT] The value '54321' of the type STRING cannot be cast"))
    assert "54321" not in str(said) and "ValueError" in str(said)
    assert "labeldp must be installed on every worker" in str(spark_failed(ValueError("No module named 'labeldp'")))
    assert "PYSPARK_PYTHON" in str(spark_failed(ValueError("No module named 'pyarrow'")))
