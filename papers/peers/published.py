"""What other papers print, why our figures differ from it, and what is wrong in the published code."""

from dataclasses import dataclass

CNN = "LabelDP-Pro, Tables 5 and 14: small network, all 60,000 records; settings chosen on true labels"
MNIST, FASHION, CIFAR = "mnist", "fashion_mnist", "cifar10"


@dataclass(frozen=True)
class Published:
    """What is known of one method.

    Args:
        figures: test accuracies in percent, by data set and epsilon.
        source: where they are printed, and with what; or that none could be recovered.
        why: why ours differ.
        code: what is wrong in the published code; that none was found, where that is so.
    """

    figures: dict[tuple[str, float], float]
    source: str
    why: str
    code: str


def _figures(mnist: tuple[float, ...], fashion: tuple[float, ...]) -> dict[tuple[str, float], float]:
    """Return figures at epsilon = 0.5, 1 and 2 by data set and epsilon."""
    both = {MNIST: mnist, FASHION: fashion}
    return {(name, epsilon): row[i] for name, row in both.items() for i, epsilon in enumerate((0.5, 1.0, 2.0))}


PUBLISHED = {
    "rr": Published(
        _figures((10.4, 51.3, 96.7), (46.9, 75.7, 84.6)),
        CNN,
        "A network that is trained for long by cross-entropy learns the noise; a linear model of public features whose "
        "penalty is chosen on released labels does not.",
        "google-research/label-dp: the seeds of the noise are fixed, and the same in all repeats. inspire-group/"
        "LabelDP: CINIC-10 is randomized over 100 classes instead of 10.",
    ),
    "alibi": Published(
        _figures((82.5, 94.1, 96.6), (69.2, 76.5, 82.3)),
        CNN,
        "The same answers and posterior; other features, learner and number of records. As Laplace noise on an "
        "indicator is post-processing of a unary bit, ALIBI cannot know more of a label than VLP.",
        "label_dp_antipodes: the default seed of the noise has 8 bits; Laplace noise is a difference of 32-bit floats, "
        "so low bits tell labels; the Gaussian posterior divides by σ instead of σ²; noise that is drawn again is "
        "charged 1, 2, 6, 24 times ε instead of 1, 2, 3, 4; the checkpoint that is best on test records is kept.",
    ),
    "vlp": Published(
        {},
        "The tables could not be recovered.",
        "Each bit has a logistic regression of its own: what bits of one record say together is not used.",
        "No code was found.",
    ),
    "consensus": Published(
        {(CIFAR, 1.0): 63.84, (CIFAR, 2.0): 83.31, (CIFAR, 3.0): 87.67},
        "Das et al.: ResNet-18, all 50,000 records of CIFAR-10, after 57.78, 79.06, 85.18 in the first training.",
        "Other data. Ours predicts each record by models that did not see its answer; theirs by the one that did.",
        "No code was found.",
    ),
    "cluster-resampling": Published(
        {},
        "The figures of the paper have no numbers that could be read.",
        "The clusters are k-means on public features, and the loss is cross-entropy of the drawn labels; the paper "
        "also corrects the loss. Classes that share a cluster cannot be learned apart.",
        "No code was found.",
    ),
    "pate": Published(
        {(CIFAR, 0.18): 73.4, (CIFAR, 0.29): 86.9, (CIFAR, 1.6): 93.7},
        "PATE-FM, as LabelDP-Pro, Table 6 prints it; its ε depends on the data.",
        "Our ε holds for any labels. The published one was computed from the votes themselves and released without "
        "noise, so it is no promise: teachers that agree make it small. Ours asks far fewer questions for that.",
        "label_dp_antipodes: ε depends on the data and is printed bare; ε is looked up at the expected number of "
        "answered questions, not at the drawn one; any exception becomes ε = -1.",
    ),
    "walr": Published(
        {},
        "The drafts print no accuracies.",
        "The linear objective follows the noise wherever probabilities are near 0 or 1; the same sums by their "
        "likelihood are our default.",
        "The text calibrates the noise by the formula for ε < 1, whatever ε is.",
    ),
    "label-sgd": Published(
        _figures((90.9, 92.8, 93.8), (79.7, 81.5, 82.3)),
        CNN + ". The rows of DP-SGD, which protects features, too",
        "Only the part of the gradient that depends on the label gets noise, and nothing is clipped. Ours takes few "
        "large batches without amplification by sampling, of fewer records.",
        "Published training shuffles where the accounting samples each record by itself.",
    ),
    "labeldp-pro": Published(
        _figures((94.1, 94.3, 95.4), (79.8, 81.7, 82.4)),
        CNN,
        "The projection removes noise outside of what labels can do to the gradient: much where parameters are many, "
        "little with the few of a linear model, and mixing with uniform weights shortens every step. Fewer "
        "records, few steps, and no amplification by sampling.",
        "No code was released. The accounting samples by itself, the training shuffles; settings come from a grid on "
        "the labels that no ε pays for.",
    ),
    "laplace": Published({}, "A baseline of GhaziBins; its tables could not be recovered.", "", "None found."),
    "rr-on-bins": Published(
        {},
        "The tables on Criteo could not be recovered.",
        "Learned from as if bins were numbers, as published: predictions shrink towards the middle.",
        "GOPHER: the range of the bins is that of the private labels; one random state is copied to all workers, which "
        "then draw the same noise; the label of a bin is looked up by the nearest value.",
    ),
    "weighted-llp": Published(
        {},
        "Tables 2 to 6 of Brahmbhatt et al. are on the 1940 census and Criteo: see "
        "[the published tables](aggregation_tables.md), each with what it promises.",
        "Here with the noise that ε and δ need on every label of a bag, and few bags; the paper's own settings promise "
        "δ near 1 at ε = 1.",
        "No code was found.",
    ),
}
"""By the names of methods."""
