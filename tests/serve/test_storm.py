"""The short version of `make serve-faults`."""

from pathlib import Path

import pytest

from serve.storm import storm


@pytest.mark.slow
def test_nothing_is_charged_or_answered_twice_when_front_and_vault_are_killed(tmp_path: Path) -> None:
    found, counted = storm(tmp_path / "s", clients=8, requests=80, kills=4)
    assert counted.pop("asked") == 80 and found.starts >= 3
    assert 64 <= counted.pop("charges") <= 80
    assert counted == dict.fromkeys(counted, 0)
