"""The tables of llp, which need torch."""

from pathlib import Path

import pytest

from papers.aggregation import cells as aggregation_runs
from papers.aggregation import data as aggregation_data
from papers.aggregation.run import AggregationGrid, reproduce_aggregation


def test_more_bags_leave_a_smaller_error_and_no_noise_has_no_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"MADE": 6_000, "BLOCK": 4_000, "LEVELS": (4, 3), "NUMBERS": 3}.items():
        monkeypatch.setattr(aggregation_data, name, value)
    monkeypatch.setattr(aggregation_runs, "MAX_INSTANCES", 2_000)
    monkeypatch.setattr(aggregation_runs, "BATCH", 64)
    grid = AggregationGrid.parse(tables="llp", bag_size="16", bags="20,200", noisy_fraction="0,1", seeds=1)
    results = reproduce_aggregation(grid, out=str(tmp_path / "out"))
    cells = {(each.run.bags, each.run.share): each.cell for each in results}
    assert len(cells) == 5
    for share in (0.0, 1.0):
        assert cells[200, share].errors["network"] < cells[20, share].errors["network"]
    assert cells[200, 0.0].delta is None and cells[200, 0.0].certificate.startswith("none")
    assert cells[200, 1.0].delta is not None and 0.9 < cells[200, 1.0].delta < 1
    assert "SIMULATION" in cells[200, 1.0].certificate and cells[200, 1.0].share == 1
    assert cells[0, 0.0].errors["network"] < cells[20, 1.0].errors["network"]
