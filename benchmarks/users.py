"""What it costs to protect all labels of a user, on made-up records and on films rated by users.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 LABELDP_DATA=data \\
        python benchmarks/users.py [--write]

Each of k records of a user has a label, and every column but the first promises (ε, δ) to each *user*. "sums" are
`fit_linear` of a curator with users. "one", "rule" and "all" are randomized responses to one record of each user at
ε, to as many as `labeldp fit --user` takes, and to all k at ε / k, learned from by a linear softmax. "each record"
are the same sums with (ε, 1e-6) for each *record*: k records of a user may then cost k times as much. The number in
brackets is how many records of a user the rule takes.

Made-up records: 4,000 users, 10 normal features, two classes; the log odds are linear in the features, plus a normal
number of standard deviation 1 for each user. MovieLens 1M: k ratings of each of 5,000 users, drawn at random, four
stars and more or less than four; features are genres and year of the film, how many users rated it, and age, gender and
occupation of the user. A cell is the area under the ROC curve in percent on records of other people (20,000; 40,000
ratings of the other 1,040 users), the mean and standard deviation over three noises, each with its own records.
Learners see features scaled to variance one.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pages
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import labeldp as ldp
from labeldp.learners import SoftmaxClassifier, fit_noisy
from labeldp.releases.users import best_cap

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
EACH = (2, 5, 10)
NOISES = 3
DOMAIN = ldp.Classes(2)
DATA = Path(os.environ.get("LABELDP_DATA", "data"))

Part = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Features, labels, and whose they are."""


def made_up(each: int, seed: int) -> tuple[Part, Part]:
    """Records of 4,000 users, and fresh ones of others."""
    rng = np.random.default_rng([3, each, seed])
    direction = rng.normal(size=10)
    direction *= 2 / np.linalg.norm(direction)

    def part(people: int, each: int) -> Part:
        users = np.repeat(np.arange(people), each)
        features = rng.normal(size=(len(users), 10))
        odds = features @ direction + rng.normal(size=people)[users]
        return features, (rng.random(len(users)) < expit(odds)).astype(int), users

    return part(4_000, each), part(20_000, 1)


def films() -> Callable[[int, int], tuple[Part, Part]]:
    """Ratings of some users, and those of others."""
    folder = DATA / "movielens_1m"
    stored = np.load(folder / "ratings.npz")
    users, items, stars = (stored[name].astype(int) for name in ("user_id", "movie_id", "rating"))
    lines = [line.split("::") for line in (folder / "movies.dat").read_text("latin-1").splitlines()]
    kinds = sorted({kind for line in lines for kind in line[2].split("|")})
    film = np.zeros((max(int(line[0]) for line in lines) + 1, len(kinds) + 2))
    for number, title, own in lines:
        film[int(number), :-2] = [kind in own.split("|") for kind in kinds]
        film[int(number), -2] = int(title[-5:-1])
    film[:, -1] = np.log1p(np.bincount(items, minlength=len(film)))
    people = [line.split("::") for line in (folder / "users.dat").read_text("latin-1").splitlines()]
    who = np.zeros((max(int(line[0]) for line in people) + 1, 2 + 21))
    for number, gender, age, work, _ in people:
        who[int(number), :2] = gender == "M", int(age)
        who[int(number), 2 + int(work)] = 1

    def draw(each: int, seed: int) -> tuple[Part, Part]:
        rng = np.random.default_rng([4, each, seed])
        order = rng.permutation(len(users))
        own = rng.permutation(np.unique(users))
        trained = np.isin(users[order], own[:5_000])
        rows = order[trained]
        rows = rows[np.argsort(users[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(users[rows], prepend=-1))
        some = rows[(starts[:, None] + np.arange(each)).ravel()]

        def part(rows: np.ndarray) -> Part:
            return np.hstack([film[items[rows]], who[users[rows]]]), (stars[rows] >= 4).astype(int), users[rows]

        return part(some), part(order[~trained][:40_000])

    return draw


def learned(part: Part, way: str, epsilon: float, seed: int) -> Any:
    """A model of (ε, δ) for each user, or for each record."""
    features, labels, users = part
    rng = np.random.default_rng([5, seed])
    delta = 1e-6 if way in ("each record", "sums, δ = 1e-6") else 0.0
    budget = ldp.Budget(epsilon, delta)
    if "sums" in way or way == "each record":
        own = None if way == "each record" else users
        curator = ldp.Curator(labels, domain=DOMAIN, budget=budget, users=own)
        scaler = StandardScaler()
        return ldp.fit_linear(features, curator, epsilon=epsilon, delta=delta, rng=rng, representation=scaler).value
    sizes = np.bincount(np.unique(users, return_inverse=True)[1])
    most = {"one": 1, "rule": best_cap(sizes, epsilon, DOMAIN), "all": int(sizes.max())}[way]
    curator, rows = ldp.Curator(labels, domain=DOMAIN, budget=budget, users=users).limited(most)
    release = curator.release(ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon / most * (1 - 1e-12)), rng=rng)
    return fit_noisy(features[rows], release, classifier=SoftmaxClassifier(StandardScaler())).value


WAYS = ("each record", "sums, δ = 1e-6", "sums, δ = 0", "one", "rule", "all")


def table(name: str, draw: Callable[[int, int], tuple[Part, Part]]) -> list[str]:
    """The rows of one data set."""
    lines = ["", f"## {name}", "", f"| k | ε | {' | '.join(WAYS)} |", "|---:|---:" + "|---:" * len(WAYS) + "|"]
    for each in EACH:
        drawn = [draw(each, seed) for seed in range(NOISES)]
        for epsilon in EPSILONS:
            cells = []
            for way in WAYS:
                scores = []
                for seed, (part, (features, labels, _)) in enumerate(drawn):
                    model = learned(part, way, epsilon, seed)
                    scores.append(100 * roc_auc_score(labels, model.predict_proba(features)[:, 1]))
                taken = f" ({best_cap(np.full(2, each), epsilon, DOMAIN)})" if way == "rule" else ""
                cells.append(f"{np.mean(scores):.1f} ± {np.std(scores, ddof=1):.1f}{taken}")
            lines.append(f"| {each} | {epsilon:g} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    given = parser.parse_args()
    lines = table("Synthetic records", made_up)
    if (DATA / "movielens_1m").is_dir():
        lines += table("MovieLens 1M", films())
    if given.write:
        pages.store("\n".join(lines), "users")


if __name__ == "__main__":
    main()
