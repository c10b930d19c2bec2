"""A table to try things on."""

import numpy as np
import pandas as pd


def table_of_people(rows: int, seed: int) -> pd.DataFrame:
    """A mixed-type table whose column `bought` depends on the others; some ages and jobs are missing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, rows).astype(float)
    hours = rng.normal(35.0, 8.0, rows).round(1)
    region = rng.choice(["north", "south", "east", "west"], rows)
    job = rng.choice(["clerk", "nurse", "driver", "teacher"], rows).astype(object)
    score = (age - 48) / 8 + 2 * (region == "north") - 2 * (job == "driver") + rng.logistic(0, 0.5, rows)
    age[rng.random(rows) < 0.05] = np.nan
    job[rng.random(rows) < 0.05] = None
    return pd.DataFrame(
        {
            "id": np.arange(1000 * seed, 1000 * seed + rows),
            "age": age,
            "hours": hours,
            "region": region,
            "job": job,
            "bought": np.where(score > 0, "yes", "no"),
        }
    )
