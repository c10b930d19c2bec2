"""Networks are tested where torch is: `make test-torch`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/labeldp/networks/*", "tests/networks"]
