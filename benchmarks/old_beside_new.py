"""The defaults of today beside those that they replaced, on every table of docs/results: one page.

    python benchmarks/old_beside_new.py

Reads the files `docs/results/old_beside_new/*.json` and writes `docs/results/old-beside-new.md`. A file is a list of
rows: table, setting, measure ("AUC", "accuracy", "log loss" or "RMSE"), old and new, each with mean, spread (the
standard deviation of one noise, null if there is one noise) and noises, and the page that the new number is from. The
rows of tables are made by

    python benchmarks/learning.py --runs adult=0.25+0.5+1+4,bank=0.25+0.5+1+4,credit=0.1+0.25+0.5+1
    python benchmarks/learning.py --runs digits=0.25+0.5+1+2+4
    python benchmarks/linear.py --runs adult=0.1+0.25+0.5+1,bank=0.1+0.25+0.5+1,credit=0.1+0.25+0.5+1 --no-designs
    python benchmarks/old_beside_new.py --gather tables

which takes the old numbers as they were published with version 0.1, and the new ones from the files that the first
three commands kept; settings that those have not measured yet are left out.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
FOLDER = RESULTS / "old_beside_new"
SURE = 2.0
"""A mean is behind if it is so many standard errors of the difference below the old one."""

LOCAL = {
    "adult accuracy": {0.25: (82.04, 1.18, 5), 0.5: (85.19, 0.76, 5), 1: (86.24, 0.09, 5), 4: (86.98, 0.08, 5)},
    "adult AUC": {0.1: (82.60, 2.42, 3), 0.25: (87.26, 0.24, 3), 0.5: (89.24, 0.13, 3), 1: (91.17, 0.09, 3)},
    "bank AUC": {0.25: (75.41, 1.56, 5), 0.5: (76.79, 0.80, 5), 1: (78.76, 0.51, 5), 4: (81.06, 0.15, 5)},
    "credit AUC": {0.1: (64.54, 2.79, 3), 0.25: (72.25, 1.33, 3), 0.5: (75.63, 1.24, 3), 1: (78.09, 0.28, 3)},
    "credit accuracy": {0.5: (81.94, 0.81, 3), 1: (82.78, 0.07, 3)},
    "digits accuracy": {
        0.25: (13.17, 5.80, 5),
        0.5: (28.39, 5.64, 5),
        1: (70.33, 8.81, 5),
        2: (95.56, 0.92, 5),
        4: (98.17, 0.15, 5),
    },
}
"""Of version 0.1: mean, standard deviation of one noise, and noises, by ε; one stage, the default classifiers."""

CENTRAL = {
    "adult AUC": {0.1: (89.63, 0.14, 3), 0.25: (89.80, 0.13, 3), 0.5: (90.14, 0.02, 3), 1: (90.32, 0.07, 3)},
    "adult accuracy": {0.1: (84.65, 0.16, 3), 0.25: (85.08, 0.03, 3), 0.5: (85.15, 0.12, 3), 1: (85.34, 0.09, 3)},
    "bank AUC": {0.1: (75.66, 1.22, 3), 0.25: (77.50, 0.40, 3), 0.5: (76.97, 0.66, 3), 1: (78.27, 0.17, 3)},
    "bank accuracy": {0.1: (89.90, 0.11, 3), 0.25: (89.94, 0.07, 3), 0.5: (90.02, 0.05, 3), 1: (90.07, 0.06, 3)},
    "credit AUC": {0.1: (73.31, 0.88, 3), 0.25: (75.11, 0.64, 3), 0.5: (75.62, 0.54, 3), 1: (76.46, 0.21, 3)},
    "credit accuracy": {0.1: (81.12, 0.07, 3), 0.25: (82.09, 0.37, 3), 0.5: (82.60, 0.05, 3), 1: (82.67, 0.11, 3)},
}
"""Of version 0.1: linear models by least squares, δ = 1e-6."""


def measured(files: list[Path], measure: str) -> dict[str, Any] | None:
    """Mean, spread and number of what the files hold; None without files."""
    values = [json.loads(file.read_text())[measure] for file in sorted(files)]
    if not values:
        return None
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "spread": spread, "noises": len(values)}


def rows_of_tables(cache: Path) -> list[dict[str, Any]]:
    """Return the rows of tables whose new numbers are there."""
    found = []
    parts = [
        (LOCAL, "trust in nobody, δ = 0", "learning", "learning/{0}-one_stage,_posterior-{1:g}-*.json"),
        (CENTRAL, "trust in a curator, δ = 1e-6", "linear", "linear/{0}-linear-{1:g}-*.json"),
    ]
    for numbers, trust, page, pattern in parts:
        for key, by_epsilon in numbers.items():
            table, measure = key.split()
            for epsilon, (mean, spread, noises) in by_epsilon.items():
                new = measured(list(cache.glob(pattern.format(table, epsilon))), measure)
                if new is not None:
                    old = {"mean": mean, "spread": spread, "noises": noises}
                    setting = f"{trust}, ε = {epsilon:g}"
                    row = {"table": table, "setting": setting, "measure": measure, "old": old, "new": new}
                    found.append({**row, "page": f"{page}.md"})
    return found


def cell(found: dict[str, Any], digits: int) -> str:
    spread = "" if found["spread"] is None else f" ± {found['spread']:.{digits}f}"
    return f"{found['mean']:.{digits}f}{spread} ({found['noises']})"


def verdict(row: dict[str, Any]) -> str:
    """Say whether the new default is ahead, behind, or within the noise."""
    old, new = row["old"], row["new"]
    gain = (old["mean"] - new["mean"]) if row["measure"] in ("log loss", "RMSE") else (new["mean"] - old["mean"])
    known = [each["spread"] for each in (old, new) if each["spread"] is not None]
    if not known:
        return "one noise each"
    variances = [(each["spread"] or max(known)) ** 2 / each["noises"] for each in (old, new)]
    error = float(np.sqrt(sum(variances)))
    if gain < -SURE * error:
        return "**behind**"
    return "ahead" if gain > SURE * error else "within the noise"


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page."""
    behind = [row for row in rows if verdict(row) == "**behind**"]
    ahead = [row for row in rows if verdict(row) == "ahead"]
    intro = f"""# Old defaults beside new ones

    python benchmarks/old_beside_new.py

One row for each table and setting of these pages where a default changed after version 0.1: what the old default gave
and what today's gives, the mean ± the standard deviation of one noise, with the number of noises in parentheses.
"Within the noise": the means are within {SURE:g} standard errors of their difference. The numbers stand in
`docs/results/old_beside_new`, a file for each kind of data; what made them is on the pages of the last column.

Of {len(rows)} rows today's default is ahead in {len(ahead)} and behind in {len(behind)}.
"""
    lines = [
        intro,
        "| data | setting | measure | old default | new default | | page |",
        "|---|---|---|---:|---:|---|---|",
    ]
    for row in rows:
        digits = 4 if row["measure"] == "log loss" else 2
        name = row["page"].removesuffix(".md")
        cells = [row["table"], row["setting"], row["measure"], cell(row["old"], digits), cell(row["new"], digits)]
        lines.append(f"| {' | '.join(cells)} | {verdict(row)} | [{name}]({row['page']}) |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gather", choices=["tables"], help="take the new numbers of tables from kept files first")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache")
    given = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    if given.gather:
        (FOLDER / "tables.json").write_text(json.dumps(rows_of_tables(given.cache), indent=1) + "\n", encoding="utf-8")
    rows = [row for file in sorted(FOLDER.glob("*.json")) for row in json.loads(file.read_text(encoding="utf-8"))]
    (RESULTS / "old-beside-new.md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
