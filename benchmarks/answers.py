"""What the results page answers, computed from docs/results/data: sentences, and tables that join several files."""

import re
from collections.abc import Callable
from statistics import fmean, median

from scipy.stats import binom

Table = tuple[list[str], list[list[str]]]
Read = Callable[[str], Table]


def records(read: Read, name: str) -> list[dict[str, str]]:
    """Return the rows of a file by column."""
    head, rows = read(name)
    return [dict(zip(head, row, strict=True)) for row in rows]


def number(cell: str) -> float:
    """Return the first number of a cell."""
    match = re.search(r"[-−]?[\d,]*\.?\d+(?:e[-+]?\d+)?", cell)
    if match is None:
        raise ValueError(f"no number: {cell}")
    return float(match[0].replace(",", "").replace("−", "-"))


def images(read: Read) -> str:
    points = {
        (p["line"], float(p["epsilon"])): float(p["mean"])
        for p in records(read, "headline")
        if p["data"] == "fashion_mnist"
    }
    mine, central = points["labeldp, local", 1.0], points["labeldp, central", 1.0]
    others = [f"{name} {points[line, 1.0]:.1f} %" for name, line in (("LP-2ST", "LP-2ST"), ("ALIBI", "ALIBI"))]
    pro = points["LabelDP-Pro, central", 1.0]
    local, published = points["labeldp, local", 2.0], points["LP-2ST", 2.0]
    place = "ahead of" if published > local else "behind"
    return (
        f"Fashion-MNIST at ε = 1: {mine:.1f} % local and {central:.1f} % central. Published: {', '.join(others)}, and "
        f"LabelDP-Pro {pro:.1f} % (central). At ε = 2 published LP-2ST ({published:.1f} %) is {place} our local model "
        f"({local:.1f} %)."
    )


def encoders(read: Read) -> str:
    head, rows = encoder_rows(read)
    best = {column: [0.0, 0.0] for column in head[2:]}
    for row in rows:
        for column, cell in zip(head[2:], row[2:], strict=True):
            if cell:
                best[column]["published" in row[0]] = max(best[column]["published" in row[0]], number(cell))
    ahead = [column.removeprefix("ε = ") for column, (ours, published) in best.items() if published > ours]
    local, central = rows[1], rows[0]
    return (
        f"CIFAR-10 with ImageNet features at ε = 1: {local[3]} % local and {central[3]} % central. Published systems "
        f"with other features are ahead at ε = {', '.join(ahead)}."
    )


def encoder_rows(read: Read) -> Table:
    """Ours beside published systems, at the epsilons that both have."""
    columns = ["ε = 0.5", "ε = 1", "ε = 2", "ε = 4"]
    runs = [run for run in records(read, "imagenet-features") if (run["set"], run["train"]) == ("cifar10", "50000")]
    rows = []
    for trust in ("central", "local"):
        scores: dict[str, list[float]] = {}
        for run in runs:
            if run["method"] == trust:
                scores.setdefault(f"ε = {float(run['epsilon']):g}", []).append(float(run["accuracy"]))
        rows.append([f"labeldp, {trust}", "ImageNet", *(f"{fmean(scores[column]):.2f}" for column in columns)])
    for row in records(read, "imagenet-published"):
        features = rows[-1][1] if row["features"] == "the same" else row["features"]
        name = re.sub(r" \[\d\]", "", row["published"])
        if any(row[c] for c in columns):
            rows.append([f"{name}, published", features, *(row[c] for c in columns)])
    return ["method", "features", *columns], rows[:8]


SCORED = ("elec2", "credit", "higgs", "hillstrom", "census", "skin")
"""Tables that had no say in a constant of the local default of classes."""


def tables(read: Read) -> str:
    rows = table_rows(read)[1]
    ahead = [sum(float(row[mine]) > float(row[other]) for row in rows) for mine, other in ((1, 2), (3, 4))]
    return (
        f"At ε = 1 the local default is ahead of randomized response with a simple classifier on {ahead[0]} of "
        f"{len(rows)} tables. The central default is ahead of noisy sums on {ahead[1]} of {len(rows)}."
    )


def table_rows(read: Read) -> Table:
    """Mean scores at epsilon = 1: the defaults, the better local baseline, the central one, and no privacy."""
    scores: dict[tuple[str, str, str], list[float]] = {}
    for row in records(read, "baselines"):
        if row["method"] != "--model linear" and (row["trust"] == "none" or float(row["epsilon"]) == 1):
            scores.setdefault((row["table"], row["trust"], row["method"]), []).append(float(row["score"]))
    rows = []
    for name in SCORED:
        ours, theirs = {}, {}
        for (table, trust, method), values in scores.items():
            if table == name:
                (ours if method == "labeldp" else theirs).setdefault(trust, []).append(fmean(values))
        cells = (ours["local"], theirs["local"], ours["central"], theirs["central"], theirs["none"])
        rows.append([name, *(f"{max(values):.1f}" for values in cells)])
    return ["data", "labeldp, local", "baseline, local", "labeldp, central", "baseline, central", "no privacy"], rows


def curves(read: Read) -> str:
    at = {(row["data"], row["trust"], row["ε"]): number(row["AUC"]) for row in records(read, "tables")}
    names = list(dict.fromkeys(name for name, _, _ in at))
    parts = [
        f"{name} {at[name, 'local', '1']:.1f} % local and {at[name, 'central', '1']:.1f} % central" for name in names
    ]
    ahead = sum(at[name, "central", "0.1"] > at[name, "local", "0.1"] for name in names)
    return f"AUC at ε = 1: {'; '.join(parts)}. At ε = 0.1 the central model is ahead on {ahead} of {len(names)} tables."


def regression_rows(read: Read) -> Table:
    """Mean errors of the default and of the baseline, on the tables that score."""
    local = [row for row in records(read, "baselines") if row["trust"] != "central"]
    found = [row for row in local if row["table"] in ("protein", "weeks", "spend")]
    rows = []
    for name in dict.fromkeys(row["table"] for row in found):
        own = [row for row in found if row["table"] == name]
        pairs = [[_error(own, method, e) for method in ("labeldp", "Laplace + ridge")] for e in ("0.5", "1", "2")]
        rows.append([name, *(" / ".join(pair) for pair in pairs), _error(own, "no privacy", "inf")])
    return ["data", "ε = 0.5", "ε = 1", "ε = 2", "no privacy"], rows


def _error(rows: list[dict[str, str]], method: str, epsilon: str) -> str:
    errors = [float(row["score"]) for row in rows if (row["method"], row["epsilon"]) == (method, epsilon)]
    return f"{fmean(errors):.2f}"


def peers(read: Read) -> str:
    rows = best_peers(read)[1]
    ahead = sum(_ahead(row[1], row[2], row[0]) and _ahead(row[3], row[4], row[0]) for row in rows)
    return (
        f"At ε = 1 both defaults are ahead of every other method on {ahead} of {len(rows)} data sets. All methods have "
        "the same features and records."
    )


def _ahead(mine: str, other: str, data: str) -> bool:
    return (
        number(mine) < number(other.split(": ")[1])
        if "protein" in data
        else number(mine) > number(other.split(": ")[1])
    )


def best_peers(read: Read) -> Table:
    """Our defaults and the best other method of each trust at epsilon = 1."""
    rows = []
    for data in ("fashion_mnist", "mnist", "protein_structure"):
        found = [row for row in records(read, "peers") if row["table"] == data]
        sign = -1 if data == "protein_structure" else 1
        cells = []
        for trust, ours in (("local", ("local", "local-numbers")), ("central", ("central", "central-numbers"))):
            own = next(row for row in found if row["name"] in ours)
            others = [row for row in found if row["trust"] == trust and row["name"] not in ours]
            best = max(others, key=lambda row: sign * number(row["ε = 1"]))
            cells += [own["ε = 1"], f"{best['method']}: {best['ε = 1']}"]
        rows.append([data, *cells])
    return ["data", "labeldp, local", "best other, local", "labeldp, central", "best other, central"], rows


def sizes_rows(read: Read) -> Table:
    """Median AUC of tables of two classes with every number of records, by records, epsilon and trust."""
    kinds = {"adult", "bank", "credit", "elec2", "magic", "higgs", "census", "skin", "visit"}
    means: dict[tuple[str, int, float, str], list[float]] = {}
    for fit in records(read, "choose"):
        if fit["table"] in kinds:
            key = fit["table"], int(fit["records"]), float(fit["epsilon"]), fit["method"]
            means.setdefault(key, []).append(float(fit["score"]))
    epsilons, sizes = (0.5, 1.0, 4.0), (1000, 5000, 20000)
    rows = []
    for trust, method in (("local", "local mixture"), ("central", "central linear, delta")):
        for size in sizes:
            cells = []
            for epsilon in epsilons:
                scores = [
                    fmean(means[t, size, epsilon, method])
                    for t in sorted(kinds)
                    if all((t, s, epsilon, method) in means for s in sizes)
                ]
                cells.append(f"{median(scores):.1f}" if scores else "")
            rows.append([trust, f"{size:,}", *cells])
    return ["trust", "records", *(f"ε = {epsilon:g}" for epsilon in epsilons)], rows


def sizes(read: Read) -> str:
    rows = {(row[0], row[1]): row[3] for row in sizes_rows(read)[1]}
    return (
        f"The median AUC of local models at ε = 1 is {rows['local', '1,000']} % with 1,000 records, "
        f"{rows['local', '5,000']} % with 5,000 and {rows['local', '20,000']} % with 20,000."
    )


def choose(read: Read) -> str:
    rows = records(read, "choose-rule")
    classes, few = (
        next(r for r in rows if (r["tables"], r["labels"], r["ε"]) == ("scoring", "classes", epsilon))
        for epsilon in ("0.5, 1, 4", "0.1")
    )
    numbers = next(r for r in rows if (r["tables"], r["labels"], r["ε"]) == ("scoring", "numbers", "0.5, 1, 4"))
    return (
        f"For classes, the first option is on average {classes['auto']} points below the best method at ε = 0.5 to 4, "
        f"and {few['auto']} points at ε = 0.1. These tables set no constant of the rule but one. Shown "
        f"intervals hold in {classes['held, shown']} of the cells. At ε = 0.1, {few['shown']} of the intervals are "
        f"shown. For numbers none is: only {numbers['held']} hold."
    )


def intervals(read: Read) -> str:
    found = [number(row["coverage"]) for row in records(read, "intervals")]
    return (
        f"95 % intervals of model quality contain the true value in {min(found):.1f} to {max(found):.1f} % of the "
        f"fits. The median of {len(found)} cases is {median(found):.1f} %."
    )


def interval_rows(read: Read) -> Table:
    """The smallest and the largest coverage of each estimate."""
    found = records(read, "intervals")
    shown = (
        "accuracy",
        "log loss",
        "area under the ROC curve",
        "recall",
        "precision",
        "calibration gap",
        "error",
        "R²",
    )
    rows = []
    for name in shown:
        values = [number(row["coverage"]) for row in found if row["estimate"] == name]
        if values:
            rows.append([name, str(len(values)), f"{min(values):.1f}", f"{max(values):.1f}"])
    return ["estimate", "settings", "lowest coverage (%)", "highest coverage (%)"], rows


RISK = 0.001
"""Of the one-sided binomial tests over all simulated cells with a guarantee together."""

LEAST = 0.94
"""An asymptotic interval that covers less often than this in a cell is named."""


def below(cells: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return cells with a guarantee that cover less than 95 %: computed ones outright, others by a binomial test."""
    risk = RISK / max(sum(cell["runs"] != "0" for cell in cells), 1)
    return [
        cell
        for cell in cells
        if float(cell["coverage"])
        < (binom.ppf(risk, int(cell["runs"]), 0.95) / int(cell["runs"]) if cell["runs"] != "0" else 0.95 - 1e-5)
    ]


def coverage(read: Read) -> str:
    cells = records(read, "inference")
    exact = [cell for cell in cells if cell["promise"] in ("exact", "finite sample", "anytime")]
    asymptotic = [
        cell for cell in cells if cell["promise"] == "asymptotic" and cell["interval"] != "normal, on request"
    ]
    lowest = min(asymptotic, key=lambda cell: float(cell["coverage"]))
    late = sorted({cell["interval"] for cell in asymptotic if float(cell["coverage"]) < LEAST})
    refused = below(exact)
    text = (
        f"Of {len(exact)} cells with an exact, finite-sample or anytime guarantee, {len(refused) or 'none'} "
        f"{'cover' if len(refused) > 1 else 'covers'} significantly less than 95 %. "
    )
    if not late:
        return text + (
            f"Asymptotic intervals cover at least 94 % in all of {len(asymptotic)} cells, from 200 records on; "
            f"the lowest is {100 * float(lowest['coverage']):.1f} %."
        )
    failing = [cell for cell in asymptotic if float(cell["coverage"]) < LEAST]
    names = ", ".join(
        f"{name} down to {100 * min(float(c['coverage']) for c in failing if c['interval'] == name):.1f} % at n = "
        + " and ".join(sorted({c["records"] for c in failing if c["interval"] == name}, key=int))
        for name in late
    )
    return text + (
        f"Asymptotic intervals cover at least 94 % in {len(asymptotic) - len(failing)} of {len(asymptotic)} cells. "
        f"Below 94 %: {names}."
    )


def formulas(read: Read) -> Table:
    """Return widths and coverage of a share of 5 % of two classes, beside the formulas of other programs."""
    names = {"exact": "exact", "normal, on request": "normal: RRreg", "NPRR's of Hoeffding": "Hoeffding: NPRR"}
    rows = []
    cells = records(read, "inference")
    for interval, name in names.items():
        texts = []
        for size in ("200", "500", "5000"):
            chosen = next(
                cell
                for cell in cells
                if (cell["interval"], cell["records"], cell["epsilon"], cell["rate"], cell["classes"])
                == (interval, size, "1.0", "0.05", "2")
            )
            texts.append(f"{float(chosen['width']):.3f}; {100 * float(chosen['coverage']):.1f}")
        lowest = min(float(cell["coverage"]) for cell in cells if cell["interval"] == interval)
        rows.append([name, *texts, f"{100 * lowest:.1f}"])
    return ["interval", "n = 200", "n = 500", "n = 5,000", "lowest of all cells"], rows


def estimates(read: Read) -> str:
    rows = {(r["classes"], r["ε"]): r for r in records(read, "estimate-widths")}
    one, four = (100 * number(rows["2", epsilon]["n = 5,000"]) for epsilon in ("1", "4"))
    return (
        f"With 5,000 noisy labels of two classes, the 95 % interval of a share of 5 % is {one:.1f} points wide at ε = "
        f"1. At ε = 4 it is {four:.1f} points wide."
    )


def audits(read: Read) -> str:
    correct = records(read, "audit-correct")[0]
    coverage = min(number(row["coverage"]) for row in records(read, "audit"))
    known = [
        row for row in records(read, "audit-mistakes") if row["found"].split(" of ")[0] == row["found"].split(" of ")[1]
    ]
    programs = [row for row in records(read, "mistakes") if "honest" not in row["program"]]
    traced = sum(row["trace"] != "holds" for row in programs)
    bounded = sum(": found" in row["lower bound of ε from outputs"] for row in programs)
    libraries = [row for row in records(read, "other-libraries") if row["audit"] == "outputs"]
    refuted = sum("not refuted" not in row["found"] for row in libraries)
    return (
        f"{correct['above the claim']} of {correct['audits']} audits of {correct['correct mechanisms']} correct "
        f"mechanisms reports more than the claimed ε. Each kind of bound holds in at least {coverage:.1f} % of its "
        f"audits. {len(known)} known mistakes are found in every audit. A trace finds {traced} of {len(programs)} "
        f"mistakes in programs, and a bound from outputs finds {bounded}. {refuted or 'None'} of {len(libraries)} "
        "claims of other libraries is refuted."
    )


def faults(read: Read) -> str:
    killed, other = records(read, "faults"), records(read, "faults-other")
    count = sum(int(row["kills"]) for row in killed) + sum(int(row["times"]) for row in other)
    wrong = sum(int(row["wrong"]) for row in (*killed, *other))
    return f"No: after {count:,} injected faults {wrong} charges were lost, changed or duplicated."


def fault_rows(read: Read) -> Table:
    """Faults by kind."""
    killed, other = records(read, "faults"), records(read, "faults-other")
    rows = []
    for kind in dict.fromkeys(row["table"] for row in killed):
        own = [row for row in killed if row["table"] == kind]
        rows.append(
            [kind, *(f"{sum(int(row[c]) for row in own):,}" for c in ("kills", "in a transaction", "charged", "wrong"))]
        )
    rows.append(
        [
            "other faults",
            f"{sum(int(row['times']) for row in other):,}",
            "",
            "",
            f"{sum(int(row['wrong']) for row in other)}",
        ]
    )
    storm = {row["counted afterwards"]: row[""] for row in records(read, "serve")}
    wrong = sum(number(value) for name, value in storm.items() if name not in ("asked", "charges"))
    rows.append(["requests to a killed server", storm["asked"], "", storm["charges"], f"{wrong:.0f}"])
    return ["fault", "times", "in a transaction", "charged", "wrong"], rows


def speed(read: Read) -> str:
    row = next(row for row in records(read, "throughput") if row["K"] == "10")
    files = next(
        r
        for r in records(read, "scale-files")
        if r["table"].startswith("integer ids, Parq") and r["rows"] == "100,000,000"
    )
    return (
        f"Randomized response of ten classes randomizes {row['labeldp, M labels/s']} million labels a second on one "
        f"core ({row['ratio to it']} times usual NumPy code). A file of 100 million rows takes "
        f"{number(files['release, s']):.0f} s."
    )


def speed_rows(read: Read) -> Table:
    """Ours beside a peer in the same run."""
    rows = []
    for row in records(read, "throughput"):
        rows.append(
            [
                f"randomized response, {row['K']} classes",
                f"{row['labeldp, M labels/s']} M labels/s",
                f"NumPy code: {row['usual numpy code, M labels/s']} M",
            ]
        )
    for row in records(read, "throughput-peers"):
        rows.append([f"{row['peer, K = 10']}, 10 classes", f"{number(row['labels/s']) / 1e6:.2f} M labels/s", ""])
    for row in records(read, "scale-files"):
        if row["rows"] == "10,000,000":
            rows.append(
                [f"file of 10,000,000 rows, {row['table']}", f"{row['release, s']} s", f"copy: {row['copy, s']} s"]
            )
    return ["task", "time or rate", "in the same run"], rows[:8]


def online(read: Read) -> str:
    found = [row for row in records(read, "online") if "d = 100, ε = 1;" in row["table"]]
    by = {row[""]: row for row in found}
    names = ("matrix-factorization", "multiplicative-weights", "blind")
    mine, free, blind = (number(by[name]["iid-0.1"]) for name in names)
    return (
        f"If the best of 100 experts is ahead by 0.1 a round, the regret after 100,000 rounds at ε = 1 is {mine:,.0f}. "
        f"Without privacy it is {free:,.0f}, and with a random expert {blind:,.0f}."
    )


def online_rows(read: Read) -> Table:
    """Regret of what a plan takes, without privacy and at random."""
    found = [row for row in records(read, "online") if "d = 100, ε = 1;" in row["table"]]
    names = {
        "matrix-factorization": "noisy sums (the plan)",
        "dartboard": "dartboard",
        "l2p": "L2P",
        "doubling": "doubling",
    }
    names |= {"multiplicative-weights": "no privacy", "blind": "random expert"}
    columns = ["bound", "iid-0.1", "iid-0.02", "ep10", "ep100", "shift", "trap"]
    by = {row[""]: row for row in found}
    return ["learner", *columns], [[title, *(by[name][c] for c in columns)] for name, title in names.items()]


def regression(read: Read) -> str:
    rows = regression_rows(read)[1]
    pairs = [tuple(map(float, cell.split(" / "))) for row in rows for cell in row[1:4]]
    ahead = sum(mine < other for mine, other in pairs)
    mine, other = rows[0][2].split(" / ")
    return (
        f"RMSE of {rows[0][0]} at ε = 1: labeldp {mine}, Laplace noise with a ridge regression {other}, no privacy "
        f"{rows[0][4]}. labeldp is ahead in {ahead} of {len(pairs)} cells."
    )


def front_rows(read: Read) -> Table:
    """Fashion-MNIST for the README: ours and published methods."""
    points = [point for point in records(read, "headline") if point["data"] == "fashion_mnist"]
    page = "docs/results"
    sources = {"labeldp": "images.md#fashion_mnist", "LP-2ST": "papers.md", "": "images.md#fashion_mnist"}
    rows = []
    for line in ("labeldp, central", "labeldp, local", "LP-2ST", "LabelDP-Pro, central", "ALIBI"):
        name, _, trust = line.partition(", ")
        source = sources.get(name, sources[""])
        cells = [
            next((f"{float(p['mean']):.1f}" for p in points if (p["line"], float(p["epsilon"])) == (line, epsilon)), "")
            for epsilon in (0.5, 1.0, 2.0)
        ]
        if name == "labeldp":
            name = "**labeldp**"
            cells = [f"**{cell}**" if trust == "central" else cell for cell in cells]
        else:
            name += ", published"
        rows.append([name, trust or "local", *cells, f"[{source.partition('.')[0]}]({page}/{source})"])
    return ["Fashion-MNIST, test accuracy (%)", "Trust", "ε = 0.5", "ε = 1", "ε = 2", "Source"], rows


def library_rows(read: Read) -> Table:
    """Speed of randomized response and audits of claims, by library and version."""
    ours = next(row for row in records(read, "throughput") if row["K"] == "10")
    correct = records(read, "audit-correct")[0]
    rows = [
        ["labeldp", f"{float(ours['labeldp, M labels/s']) * 1e6:,.0f}", correct["audits"], correct["above the claim"]]
    ]
    audited = [row for row in records(read, "other-libraries") if row["audit"] == "outputs"]
    speeds = {row["peer, K = 10"]: row["labels/s"] for row in records(read, "throughput-peers")}
    speeds |= {row["peer"]: row["K = 10, labels/s"] for row in records(read, "throughput-recorded")}
    for name, peer in (
        ("opendp 0.16.0", "OpenDP 0.16.0"),
        ("diffprivlib 0.6.6", "diffprivlib 0.6.6, ExponentialCategorical as RR"),
        ("pure-ldp 1.2.0", "pure-LDP 1.2.0, RR client"),
        ("multi-freq-ldpy 0.2.5", "multi-freq-ldpy GRR"),
        ("", "google-research/label-dp, RR"),
    ):
        own = [row for row in audited if row["library"] == name]
        refuted = sum("not refuted" not in row["found"] for row in own)
        rows.append(
            [name or "google-research/label-dp", speeds[peer], str(len(own) or ""), str(refuted) if own else ""]
        )
    return ["library", "labels/s, 10 classes", "audits", "above the claim"], rows


ANSWERS: dict[str, Callable[[Read], str]] = {
    "images": images,
    "encoders": encoders,
    "tables": tables,
    "curves": curves,
    "regression": regression,
    "peers": peers,
    "choose": choose,
    "sizes": sizes,
    "intervals": intervals,
    "coverage": coverage,
    "estimates": estimates,
    "audits": audits,
    "faults": faults,
    "speed": speed,
    "online": online,
}
SUMMARIES: dict[str, Callable[[Read], Table]] = {
    "encoders": encoder_rows,
    "tables": table_rows,
    "regression": regression_rows,
    "peers": best_peers,
    "sizes": sizes_rows,
    "formulas": formulas,
    "intervals": interval_rows,
    "faults": fault_rows,
    "speed": speed_rows,
    "online": online_rows,
    "front": front_rows,
    "libraries": library_rows,
}
