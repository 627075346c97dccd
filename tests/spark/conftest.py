"""One Spark session for all tests of this folder; it runs in this process, on the loopback only."""

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason='needs pyspark: pip install "sonline[spark]"')

from pyspark.sql import SparkSession

OLDEST_JAVA = 17
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # Short jobs: the compilers of Java and Spark cost more than they gain.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}


def java_version() -> int:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    if java is None:
        return 0
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', output)
    return int(match[1]) if match else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pyspark leave its sockets open where a session is used."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(autouse=True)
def no_sockets_left() -> Iterator[None]:
    """Let go of the sockets that some versions of pyspark leave to the garbage collector."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    actual = java_version()
    if actual < OLDEST_JAVA:
        pytest.skip(
            f"Spark needs Java {OLDEST_JAVA} or newer, found {actual or 'none'}; "
            "tools/java.sh says how to get it"
        )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2, 4]").appName("sonline")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    folder = tmp_path_factory.mktemp("spark")
    builder = builder.config("spark.local.dir", str(folder))
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
