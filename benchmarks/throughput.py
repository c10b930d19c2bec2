"""How fast labels are randomized, as ratios to limits that are measured in the same run.

    python benchmarks/throughput.py [--repeats 7] [--write]

One thread. The limits: the AES-256-CTR keystream (no mechanism can draw more words than that), the usual
floating-point code on numpy's PCG64 (neither exact nor secure), and `np.sort` of the priors. Peers that are installed
are run on their own functions; the others stand with figures that were measured once on a machine of this kind, as a
ratio to the plain numpy code of that same run.
"""

import argparse
import os
from collections.abc import Callable

import pages
from clock import seconds

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import labeldp as ldp

LABELS, ROWS, CLASSES, EPSILON = 10**7, 10**6, 10, 1.0

# Labels per second for K = 10 (or two classes where said) and K = 100, epsilon = 1, one thread, two shared AMD EPYC
# virtual cores, Python 3.11.7, numpy 2.4.6: medians of 3 to 7 runs of each project's own functions. The first row is
# the common yardstick.
RECORDED = {
    "plain vectorized numpy RR, PCG64 (yardstick)": (35.7e6, 46.8e6),
    "the same with os.urandom": (7.6e6, 5.9e6),
    "vectorized numpy RRWithPrior by sorting, PCG64 (0.75 to 1.4 M)": (1.1e6, 0.12e6),
    "google-research/label-dp, RR": (43_700, 39_100),
    "google-research/label-dp, RRWithPrior, whole path": (12_100, 1_960),
    "google-research/label-dp, rr_with_prior alone": (10_900, 1_850),
    "jinpz/label_differential_privacy, RRWithPrior_batch": (16_500, 8_800),
    "VFLAIR, RR": (831_000, 814_000),
    "VFLAIR, RRWithPrior (not private)": (48_500, 18_900),
    "BlockRR, RR": (12_100, 3_700),
    "BlockRR, RRWithPrior": (14_800, 10_600),
    "BlockRR, RRWithWeight": (16_500, 2_800),
    "inspire-group/LabelDP, RR": (111_000, 125_000),
    "facebookresearch/label_dp_antipodes, ALIBI noise": (43_800, 24_500),
    "facebookresearch/label_dp_antipodes, ALIBI posterior": (900_000, 65_800),
    "SecretFlow LabelDP, one-hot": (55_600, 36_000),
    "SecretFlow LabelDP, two classes, vectorized": (24.0e6, None),
    "diffprivlib 0.6.6, ExponentialCategorical as RR": (86_500, 17_700),
    "diffprivlib 0.6.6, Binary, two classes": (239_000, None),
    "OpenDP 0.16.0, make_randomized_response": (8_800, 9_800),
    "OpenDP 0.16.0, the boolean one, two classes": (8_300, None),
    "pure-LDP 1.2.0, RR client": (1_473_000, 1_325_000),
    "pure-LDP 1.2.0, SUE client": (41_100, 25_100),
    "multi-freq-ldpy 0.2.5, GRR client": (1_752_000, 1_526_000),
    "multi-freq-ldpy 0.2.5, SUE client": (449_000, 181_000),
    "gopher, RR-on-bins (two output bins)": (5_450, None),
}


def usual_code(labels: np.ndarray, keep: float, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Randomized response as it is usually written: a double against a probability, and a redrawn class."""
    kept = rng.random(len(labels)) < keep
    others = rng.integers(0, classes - 1, len(labels), dtype=labels.dtype)
    others += others >= labels
    return np.where(kept, labels, others)


def randomized_response(repeats: int) -> list[str]:
    """K = 2, 10, 100 on uint8 labels, beside the usual code and the keystream."""
    rng, system = np.random.default_rng(0), ldp.SystemRandomness()
    words = np.empty(LABELS, dtype=np.uint64)
    keystream = seconds(lambda: system.fill(words), repeats)
    lines = [
        f"AES-256-CTR keystream: {LABELS / keystream / 1e6:.0f} M words/s.",
        "",
        "| K | labeldp, M labels/s | usual numpy code, M labels/s | ratio to it | share of the keystream |",
        "|---|---|---|---|---|",
    ]
    for classes in (2, 10, 100):
        labels = rng.integers(0, classes, LABELS, dtype=np.uint8)
        mechanism = ldp.RandomizedResponse(domain=ldp.Classes(classes), epsilon=EPSILON)
        ours = seconds(lambda: mechanism.randomize(labels, rng=system), repeats)  # noqa: B023
        usual = seconds(lambda: usual_code(labels, mechanism.keep_probability, classes, rng), repeats)  # noqa: B023
        row = (classes, LABELS / ours / 1e6, LABELS / usual / 1e6, usual / ours, keystream / ours)
        lines.append("| {} | {:.0f} | {:.0f} | {:.2f} | {:.2f} |".format(*row))
    return lines


def with_prior(repeats: int) -> list[str]:
    """RRWithPrior, from float64 priors to noisy labels, beside a sort of the same array."""
    rng, system = np.random.default_rng(0), ldp.SystemRandomness()
    lines = [
        "| K | rows | labeldp, M labels/s | `np.sort`, s | choice of sets, s | draws, s | whole / sort |",
        "|---|---|---|---|---|---|---|",
    ]
    for classes, rows in ((CLASSES, ROWS), (100, ROWS // 10)):
        prior = rng.dirichlet(np.full(classes, 0.3), rows)
        labels = rng.integers(0, classes, rows, dtype=np.uint8)
        domain = ldp.Classes(classes)

        def build(
            domain: ldp.Classes = domain, prior: np.ndarray = prior
        ) -> ldp.mechanisms.RandomizedResponseWithPrior:
            public = ldp.Public(prior, why="drawn for the benchmark")
            return ldp.mechanisms.RandomizedResponseWithPrior(domain=domain, epsilon=EPSILON, prior=public)

        mechanism = build()
        sort = seconds(lambda: np.sort(prior, axis=1), repeats)  # noqa: B023
        choose = seconds(build, repeats)
        draw = seconds(lambda: mechanism.randomize(labels, rng=system), repeats)  # noqa: B023
        row = (classes, rows, rows / (choose + draw) / 1e6, sort, choose, draw, (choose + draw) / sort)
        lines.append("| {} | {} | {:.2f} | {:.3f} | {:.3f} | {:.3f} | {:.2f} |".format(*row))
    return lines


def others(repeats: int) -> list[str]:
    """The other mechanisms, as shares of the keystream's words that they need."""
    rng, system = np.random.default_rng(0), ldp.SystemRandomness()
    words = np.empty(ROWS, dtype=np.uint64)
    keystream = seconds(lambda: system.fill(words), repeats)
    keyed, rows = ldp.KeyedRandomness(bytes(32)), np.arange(ROWS)
    ten = ldp.Classes(10)
    labels = rng.integers(0, 10, ROWS, dtype=np.uint8)
    grid = ldp.Interval(0, 100, grid=1025)
    codes = rng.integers(0, 1025, ROWS, dtype=np.uint16)
    response = ldp.RandomizedResponse(domain=ten, epsilon=EPSILON)
    unary = ldp.UnaryEncoding(domain=ten, epsilon=EPSILON)
    laplace = ldp.DiscreteLaplace(domain=grid, epsilon=EPSILON)
    cases: list[tuple[str, Callable[[], object], int]] = [
        ("RandomizedResponse, K = 10, keyed by row number", lambda: response.randomize(labels, rng=keyed, ids=rows), 1),
        ("UnaryEncoding, K = 10", lambda: unary.randomize(labels, rng=system), 10),
        ("DiscreteLaplace, 1,025 grid points", lambda: laplace.randomize(codes, rng=system), 1),
    ]
    lines = ["| mechanism | M labels/s | words a label | share of the keystream |", "|---|---|---|---|"]
    for name, work, need in cases:
        time_taken = seconds(work, repeats)
        lines.append(f"| {name} | {ROWS / time_taken / 1e6:.1f} | {need} | {need * keystream / time_taken:.2f} |")
    return lines


def installed_peers() -> list[str]:
    """Peers that happen to be installed, on 20,000 labels."""
    lines = []
    labels = np.random.default_rng(0).integers(0, CLASSES, 20_000)
    try:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        peer = dp.m.make_randomized_response(categories=list(range(CLASSES)), prob=0.232)
        taken = seconds(lambda: [peer(int(label)) for label in labels], 3)
        lines.append(f"| OpenDP {dp.__version__ if hasattr(dp, '__version__') else ''} | {len(labels) / taken:,.0f} |")
    except ImportError:
        pass
    try:
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

        taken = seconds(lambda: [GRR_Client(int(label), CLASSES, EPSILON) for label in labels], 3)
        lines.append(f"| multi-freq-ldpy GRR | {len(labels) / taken:,.0f} |")
    except ImportError:
        pass
    if not lines:
        return ["None of them is installed here."]
    return ["| peer, K = 10 | labels/s |", "|---|---|", *lines]


def recorded_peers() -> list[str]:
    """The recorded figures, as ratios to the plain numpy code of their run."""
    yardstick = RECORDED["plain vectorized numpy RR, PCG64 (yardstick)"]
    lines = ["| peer | K = 10, labels/s | K = 100, labels/s | K = 10, share of plain numpy |", "|---|---|---|---|"]
    for name, (ten, hundred) in RECORDED.items():
        large = "not run" if hundred is None else f"{hundred:,.0f}"
        lines.append(f"| {name} | {ten:,.0f} | {large} | {ten / yardstick[0]:.4f} |")
    return lines


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    arguments = parser.parse_args()
    repeats = arguments.repeats
    parts = [
        "# Throughput",
        f"`python benchmarks/throughput.py --repeats {repeats}`: one thread, medians; numpy {np.__version__}, "
        f"epsilon = {EPSILON:g}. Ratios were taken in one run; absolute figures depend on the machine.",
        f"## Randomized response, {LABELS:,} uint8 labels",
        "\n".join(randomized_response(repeats)),
        f"## Randomized response with a prior, {ROWS:,} × {CLASSES}",
        "\n".join(with_prior(repeats)),
        f"## Other mechanisms, {ROWS:,} labels",
        "\n".join(others(repeats)),
        "## Peers",
        "Installed beside labeldp in this run:",
        "\n".join(installed_peers()),
        "Recorded earlier, on their own functions:",
        "\n".join(recorded_peers()),
    ]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if arguments.write:
        names = ("throughput", "throughput-prior", "throughput-mechanisms", "throughput-peers", "throughput-recorded")
        pages.store(text, *names)


if __name__ == "__main__":
    main()
