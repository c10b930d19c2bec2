"""The folder that mistakes are made in, made once."""

from pathlib import Path

import pytest

from trial.world import prepare


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `prepare`; no test may change it."""
    place = tmp_path_factory.mktemp("trial")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        prepare()
    return place
