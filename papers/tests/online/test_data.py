"""Losses of stocks and of forecasters: scaled day by day, made of the past alone, and what is refused."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from labeldp.privacy import InputError
from papers.online.data import COLUMNS, WEEK, forecasts, real_losses, stock_losses

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[3] / "shared" / "data"))


def write(path: Path, text: str) -> Path:
    """A compressed file in its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def market(count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Made-up half-hours."""
    rng = np.random.default_rng(0)
    series = {name: rng.random(count) for name in COLUMNS}
    series["period"] = np.arange(count) % 48 / 47
    return series, rng.random(count) < 0.4


def test_the_best_stock_of_the_day_loses_nothing_and_the_worst_one() -> None:
    losses = stock_losses(np.array([[1.1, 0.9, 1.0], [1.0, 1.0, 1.0], [0.5, 2.0, 1.25]]))
    assert losses == pytest.approx(np.array([[0, 1, 0.5], [0, 0, 0], [1, 0, 0.5]]))


def test_a_folder_of_stocks_is_read(tmp_path: Path) -> None:
    write(tmp_path / "stock_experts" / "djia.csv.gz", "s1,s2,s3\n" + "1.1,0.9,1.0\n0.5,2.0,1.25\n" * 32)
    found = real_losses(str(tmp_path))
    assert list(found) == ["djia"]
    losses = found["djia"]()
    assert losses.experts == ("s1", "s2", "s3") and losses.levels[:2].tolist() == [[0, 255, 128], [255, 0, 128]]
    assert [block.shape for block in losses.blocks()] == [(64, 3)] and "255" not in repr(losses)


def test_a_forecast_depends_on_the_past_alone() -> None:
    series, rose = market(900)
    said = forecasts(series, rose)
    for place in (0, 1, 500, 899):
        other = {name: values.copy() for name, values in series.items()}
        for name in COLUMNS[1:]:
            other[name][place:] = 1 - other[name][place:]
        changed = rose.copy()
        changed[place:] = ~changed[place:]
        for name, forecast in forecasts(other, changed).items():
            assert np.array_equal(forecast[: place + 1], said[name][: place + 1]), name


def test_forecasts_by_hand() -> None:
    series, rose = market(900)
    said = forecasts(series, rose)
    assert len(said) == 44 and all(forecast.shape == (900,) for forecast in said.values())
    assert np.array_equal(said["as 1 before"][1:], rose[:-1]) and not said["as 1 before"][0]
    assert np.array_equal(said[f"as {WEEK} before"][WEEK:], rose[:-WEEK])
    assert said["majority of 3"][10] == (rose[7:10].sum() >= 2)
    assert said["same half-hour, 3 days"][500] == (rose[[452, 404, 356]].sum() >= 2)
    assert said["price above 0.06"][8] == (series["nswprice"][7] > 0.06)
    assert said["demand above its mean of 6"][20] == (series["nswdemand"][19] > series["nswdemand"][14:20].mean())
    assert said["always up"].all() and not said["always down"].any()


def test_a_logistic_forecaster_learns() -> None:
    series, _ = market(3000)
    rose = np.concatenate([[False], series["nswdemand"][:-1] > 0.5])
    errors = forecasts(series, rose)["logistic on market, step 0.1"] != rose
    assert errors[2000:].mean() < 0.1 < errors[:100].mean()


def test_errors_are_losses(tmp_path: Path) -> None:
    series, rose = market(400)
    columns = np.column_stack([*(series[name] for name in COLUMNS), rose])
    text = "\n".join([",".join([*COLUMNS, "class"]), *(",".join(map(str, row)) for row in columns)])
    write(tmp_path / "elec2" / "elec2.csv.gz", text)
    losses = real_losses(str(tmp_path))["elec2"]()
    assert losses.levels.shape == (400, 44) and set(np.unique(losses.levels)) == {0, 255}
    wrong = np.column_stack([said != rose for said in forecasts(series, rose).values()])
    assert np.array_equal(losses.levels == 255, wrong)


def test_without_a_folder_there_is_nothing() -> None:
    assert real_losses(None) == {}


def test_what_is_no_such_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        real_losses(str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"stock_experts/nyse_o\.csv\.gz"):
        real_losses(str(tmp_path))
    write(tmp_path / "stock_experts" / "djia.csv.gz", "s1,s2\n1.0,none\n")
    with pytest.raises(InputError, match="table of numbers"):
        real_losses(str(tmp_path))["djia"]()
    write(tmp_path / "stock_experts" / "djia.csv.gz", "s1,s2\n1.0,1.1\n")
    with pytest.raises(InputError, match="at least 64 rounds"):
        real_losses(str(tmp_path))["djia"]()
    write(tmp_path / "elec2" / "elec2.csv.gz", "period,class\n0.1,1\n")
    with pytest.raises(InputError, match="nswprice"):
        real_losses(str(tmp_path))["elec2"]()


@pytest.mark.skipif(not (DATA / "elec2").is_dir(), reason="the data are not here")
def test_the_real_ones_have_their_sizes() -> None:
    found = real_losses(str(DATA))
    sizes = {name: losses().levels.shape for name, losses in found.items()}
    assert sizes == {"nyse_o": (5651, 36), "sp500": (1276, 25), "djia": (507, 30), "elec2": (45_312, 44)}
    errors = dict(zip(found["elec2"]().experts, found["elec2"]().levels.mean(axis=0) / 255, strict=True))
    assert errors["as 1 before"] == pytest.approx(0.147, abs=0.001)
