"""The weight decay of a network for ratings, chosen from randomized labels alone.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/ratings_decay.py --epsilon 1 --decay 1e-4 5e-5 2e-5 5e-6

A network learns from the answers of nine tenths of MovieLens-1M's training records, one stage of randomized response.
The other tenth answers once, too, and the table shows the mean log loss of these answers, in nats: what the network
predicts, passed through the noise, is compared with them. No true rating is compared with anything. One noise for the
network, three for the answers. The folder movielens_1m is looked for in the folder LABELDP_DATA, by default
../shared/data. Needs torch; about 160 seconds a row.
"""

import argparse
from dataclasses import replace

import data
import numpy as np
import torch

import labeldp as ldp
from labeldp.learners import fit_multistage
from labeldp.networks import PRESETS, NetworkClassifier
from papers.ratings import load_movielens

STARS = 5
NOISES = 3


def main() -> None:
    """Print a row for each weight decay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--decay", nargs="+", type=float, default=[1e-4, 5e-5, 2e-5, 5e-6])
    parser.add_argument("--epochs", type=int, default=PRESETS["movielens"][0].epochs)
    given = parser.parse_args()
    torch.set_num_threads(1)
    train = load_movielens(str(data.DATA / "movielens_1m")).train
    features, labels = np.asarray(train.features), np.asarray(train.labels).astype(np.int64) - 1
    order = np.random.default_rng(7).permutation(len(labels))
    learned, held_out = np.split(order, [int(0.9 * len(order))])
    counts = tuple((features.max(axis=0) + 1).tolist())
    print("| decay | log loss of held-out answers | standard error |\n|---:|---:|---:|")
    for decay in given.decay:
        recipe = replace(PRESETS["movielens"][0], weight_decay=decay, epochs=given.epochs)
        release = fit_multistage(
            features[learned],
            ldp.Curator(labels[learned], domain=ldp.Classes(STARS), budget=ldp.Budget(epsilon=given.epsilon)),
            classifier=NetworkClassifier("collaborative", recipe=(recipe,), counts=counts),
            epsilon=given.epsilon,
            stages=1,
            evaluation=0.0,
            response="randomized-response",
            rng=np.random.default_rng(0),
        )
        losses = answer_losses(release.value.predict_proba(features[held_out]), labels[held_out], given.epsilon)
        error = losses.std() / len(held_out) ** 0.5
        print(f"| {decay:g} | {losses.mean():.4f} | {error:.4f} |", flush=True)


def answer_losses(probabilities: np.ndarray, labels: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the log loss of simulated answers, of shape (noises, records)."""
    kept = (np.exp(epsilon) - 1) / (np.exp(epsilon) + STARS - 1)
    losses = []
    for noise in range(NOISES):
        rng = np.random.default_rng(100 + noise)
        answers = np.where(rng.random(len(labels)) < kept, labels, rng.integers(0, STARS, len(labels)))
        told = probabilities[np.arange(len(labels)), answers]
        losses.append(-np.log(kept * told + (1 - kept) / STARS))
    return np.array(losses)


if __name__ == "__main__":
    main()
