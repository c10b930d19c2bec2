"""The catalog of estimates: the only list. The commands of `labeldp estimate`, the rules, pages and tests read it.

It imports nothing heavy: a row names a function, which is imported when a command asks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """The default interval of an estimator.

    Args:
        method: which interval it is.
        guarantee: what holds with probability `level`: "exact" and "finite sample" for every number of records,
            "asymptotic" for many, "anytime" at all numbers of records together.
    """

    method: str
    guarantee: str


@dataclass(frozen=True)
class Input:
    """What the command of an estimate takes.

    Args:
        argument: of the function.
        kind: what the option names or holds. Of public columns: a "column", "numbers", "arms", a "table" of columns
            of numbers, "codes" of predicted classes, or "chances" of classes. Else "text", "name", "number",
            "switch", "shares" by name, or "why" the public columns do not depend on these labels.
        help: of the option.
        flag: the option; by default the argument.
        required: whether the command needs it.
        default: of a number or of one of the choices.
        choices: what a text may be.
        role: the name of the column in the request for noisy sums; empty where sums do not need it.
        alias: what `plan_sums` and others call the argument in their messages.
        titles: the argument that takes the names of the columns of a table.
    """

    argument: str
    kind: str
    help: str
    flag: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    role: str = ""
    alias: str = ""
    titles: str = ""

    @property
    def option(self) -> str:
        """The flag of the option."""
        return self.flag or f"--{self.argument.replace('_', '-')}"


@dataclass(frozen=True, kw_only=True)
class EstimateEntry:
    """One command of `labeldp estimate`.

    Args:
        path: "module:function". It takes a release and the inputs, and returns an `Estimate`, or `PredictionSets`,
            alone or with the scores that a report draws.
        help: what the command does: a sentence, and a paragraph.
        inputs: what it takes, beyond the user of each record.
        outputs: which options of outputs it has.
        rules: the intervals of the function.
        sums: the question of `plan_sums` that answers it, by the score that is asked, or under an empty name.
        answers: what noisy classes, noisy numbers, noisy bins and noisy sums tell, in words for the table of questions.
        details: arguments that the command sets: for a text, and for a report.
        summary: whether the text is `Estimate.summary`.
    """

    path: str
    help: str
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...] = ("level", "plot", "report", "as_json")
    rules: Mapping[str, Rule] = field(default_factory=dict)
    sums: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[str, str, str, str]
    details: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    summary: bool = False

    @property
    def function(self) -> str:
        """The name of the function in `labeldp.inference`."""
        return self.path.partition(":")[2]

    def load(self) -> Any:
        """Return the function."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)


OUTCOME = Input("outcome", "text", "Of classes: the one that is meant; of two the second one.")
BY = Input("groups", "column", "A public column: an estimate for each of its values.", "--by", role="by")
TREATED = Input("treated", "arms", "Who was treated: 1 or 0, true or false, or the arm.", required=True, role="treated")
CONTROL = Input("control", "name", "The arm that others are compared with; by default the first one.")
COVARIATES = Input("covariates", "table", "Public numbers, measured before the treatment.")
EXPOSED = Input(
    "exposed", "numbers", "1 or 0, true or false.", "--exposure", required=True, role="treated", alias="treated"
)
USERS = Input("users", "column", "The user of each record, if users have several.", "--user")
"""What every command takes."""

WHY = Input("why", "why", "Why these labels did not make the predictions.", required=True, role="why")

SCORES = ("accuracy", "precision", "recall", "f1", "auc", "average_precision", "log_loss", "brier", "confusion")

TWO_TESTS = Rule("two Clopper-Pearson tests, combined and inverted", "asymptotic")
TWO_TESTS_OF_SUMS = Rule("two exact tests of binomial counts with geometric noise, combined and inverted", "asymptotic")
"""Rules of a ratio of two shares."""


ESTIMATES: Mapping[str, EstimateEntry] = {
    "mean": EstimateEntry(
        path="labeldp.inference.shares:mean",
        help="Estimate the share of each class, or a mean.\n\nThe estimate is overall, or by a public column.",
        inputs=(BY, OUTCOME),
        rules={
            "share": Rule("Clopper-Pearson interval of the answers", "exact"),
            "share, normal": Rule("Student's interval of debiased answers", "asymptotic"),
            "share of these records": Rule("normal interval of the noise", "asymptotic"),
            "share, declared for each record": Rule("Student's interval of weighted answers", "asymptotic"),
            "share, sums": Rule("test of a binomial count with geometric noise, inverted", "exact"),
            "share of these records, sums": Rule("quantile of geometric noise", "exact"),
            "mean, two outputs": Rule("Clopper-Pearson interval of the answers", "exact"),
            "mean": Rule("Student's interval of debiased numbers", "asymptotic"),
            "mean, few records": Rule("betting interval", "finite sample"),
            "mean, sums": Rule("normal interval with the largest variance that the range admits", "asymptotic"),
        },
        sums={"": "mean"},
        answers=("shares", "mean", "shares of bins", '`plan_sums("mean", …)`'),
    ),
    "quantile": EstimateEntry(
        path="labeldp.inference.shares:quantile",
        help="Estimate a quantile of ordered classes or binned numbers.",
        inputs=(BY, Input("at", "number", "The median is 0.5.", default=0.5)),
        rules={
            "quantile": Rule("Clopper-Pearson tests of cumulated shares, inverted", "exact"),
            "quantile, normal": Rule("normal tests of cumulated shares, inverted", "asymptotic"),
            "quantile, sums": Rule("normal tests of noisy cumulated counts, inverted", "asymptotic"),
        },
        sums={"": "mean"},
        answers=("ordered classes", "no", "yes", 'ordered classes: `"mean"`'),
    ),
    "weighted-mean": EstimateEntry(
        path="labeldp.inference.strata:weighted_mean",
        help="Estimate a share or mean with survey weights.\n\nThe weights are public.",
        inputs=(Input("weights", "numbers", "How many people each record stands for.", required=True), OUTCOME),
        rules={"weighted mean": Rule("Student's interval of weighted answers, HC2 errors", "asymptotic")},
        answers=("yes", "yes", "no", "no"),
    ),
    "stratified-mean": EstimateEntry(
        path="labeldp.inference.strata:stratified_mean",
        help="Estimate a share or mean from strata of known sizes.\n\nThis is post-stratification, too.",
        inputs=(
            Input("strata", "column", "The public stratum of each record.", required=True, role="by"),
            Input("population", "shares", "The share or size of each stratum in the population.", required=True),
            OUTCOME,
        ),
        rules={
            "stratified mean": Rule("intervals of the strata, variances recovered", "asymptotic"),
            "stratified mean, users": Rule("Student's interval of stratified answers", "asymptotic"),
        },
        sums={"": "mean"},
        answers=("yes", "yes", "no", '`"mean"`'),
    ),
    "change": EstimateEntry(
        path="labeldp.inference.periods:change",
        help="Estimate changes from period to period.\n\n`mean --by` has the level of each period.",
        inputs=(
            Input("periods", "column", "The public period of each record.", required=True, role="by"),
            Input("since", "name", "Compare with this period, and not with the one before."),
            OUTCOME,
        ),
        rules={
            "change": Rule("intervals of two periods, variances recovered", "asymptotic"),
            "change, users": Rule("Student's interval of debiased answers", "asymptotic"),
        },
        sums={"": "mean"},
        answers=("yes", "yes", "no", '`"mean"`'),
    ),
    "difference": EstimateEntry(
        path="labeldp.inference.effects:difference",
        help="Estimate the effect of a randomized treatment.\n\n"
        "The estimate is overall, or by a public column, for each arm but the control.",
        inputs=(TREATED, CONTROL, BY, OUTCOME, COVARIATES),
        rules={
            "difference": Rule("two Clopper-Pearson intervals of the answers, variances recovered", "asymptotic"),
            "difference, numbers": Rule(
                "two Student's intervals of debiased numbers, variances recovered", "asymptotic"
            ),
            "difference, adjusted": Rule("regression with interactions, HC2 errors", "asymptotic"),
            "difference, propensity": Rule("augmented inverse propensity weighting, Student's interval", "asymptotic"),
            "difference, sums": Rule("two exact intervals, variances recovered", "asymptotic"),
            "difference, number sums": Rule(
                "two normal intervals with the largest variance that the range admits, variances recovered",
                "asymptotic",
            ),
        },
        sums={"": "difference"},
        answers=("yes, also adjusted", "yes", "no", '`plan_sums("difference", …)`'),
    ),
    "difference-in-differences": EstimateEntry(
        path="labeldp.inference.periods:difference_in_differences",
        help="Estimate how much more the treated changed than others.\n\n"
        "It is the effect if both would have changed alike without the treatment.",
        inputs=(
            Input("treated", "numbers", "Who is treated later on: 1 or 0.", required=True, role="treated"),
            Input("after", "numbers", "Which records are of the time after: 1 or 0.", required=True, role="by"),
            OUTCOME,
        ),
        rules={
            "difference in differences": Rule("four intervals, variances recovered", "asymptotic"),
            "difference in differences, users": Rule("Student's interval of debiased answers", "asymptotic"),
        },
        sums={"": "difference"},
        answers=("yes", "yes", "no", '`"difference"`'),
    ),
    "lift": EstimateEntry(
        path="labeldp.inference.lifts:lift",
        help="Estimate the relative lift of a randomized treatment.\n\n"
        "The lift is the effect divided by the share or mean of the control: overall, or by a public column.",
        inputs=(TREATED, CONTROL, BY, OUTCOME, COVARIATES),
        rules={
            "lift": Rule("two Clopper-Pearson intervals of the answers, test of their ratio inverted", "asymptotic"),
            "lift, numbers": Rule(
                "two Student's intervals of debiased numbers, test of their ratio inverted", "asymptotic"
            ),
            "lift, adjusted": Rule("regressions by arm, test of the ratio of their means inverted", "asymptotic"),
            "lift, sums": Rule("two exact intervals, test of their ratio inverted", "asymptotic"),
            "lift, number sums": Rule(
                "two normal intervals with the largest variance that the range admits, test of their ratio inverted",
                "asymptotic",
            ),
        },
        sums={"": "difference"},
        answers=("yes, also adjusted", "of at least 0", "no", '`"difference"`'),
    ),
    "uplift": EstimateEntry(
        path="labeldp.inference.targeting:uplift",
        help="Evaluate a score that says whom to treat.\n\n"
        "The treatment was drawn by lot. The model of the score must not have been trained on these labels.",
        inputs=(
            TREATED,
            Input(
                "scores",
                "numbers",
                "Larger for whom the treatment should do more.",
                "--score",
                required=True,
                alias="scores",
            ),
            WHY,
            Input(
                "measure",
                "text",
                "The Qini area, or the gain of treating the top shares.",
                default="area",
                choices=("area", "curve"),
            ),
            CONTROL,
            OUTCOME,
        ),
        rules={
            "uplift area": Rule("Student's interval of debiased outcomes, weighted by ranks", "asymptotic"),
            "uplift curve": Rule("Student's interval of debiased outcomes above thresholds", "asymptotic"),
        },
        answers=("yes", "yes", "no", "no"),
    ),
    "regression": EstimateEntry(
        path="labeldp.inference.regression:regression",
        help="Estimate a regression on public features.\n\n"
        "Logistic regressions are of classes, linear ones of classes and numbers, Poisson regressions of counts.",
        inputs=(
            Input("features", "table", "Public numbers, separated by commas.", required=True, titles="names"),
            Input("kind", "text", "The model.", default="logistic", choices=("logistic", "linear", "poisson")),
            OUTCOME,
        ),
        rules={
            "logistic": Rule("likelihood ratio test, inverted", "asymptotic"),
            "logistic, users": Rule("sandwich errors", "asymptotic"),
            "linear": Rule("least squares, HC2 errors", "asymptotic"),
            "poisson": Rule("score tests of log-linear means, inverted", "asymptotic"),
            "linear, sums": Rule("normal interval with the largest variance that the sums admit", "asymptotic"),
        },
        answers=("logistic, linear", "linear, Poisson", "no", '`plan_sums("regression", …)`'),
        summary=True,
    ),
    "odds-ratio": EstimateEntry(
        path="labeldp.inference.regression:odds_ratio",
        help="Estimate the odds ratio of a class for an exposure.\n\n"
        "The exposure is public. Two exact tests are combined, so the interval is wide.",
        inputs=(EXPOSED, OUTCOME),
        rules={
            "odds ratio": TWO_TESTS,
            "odds ratio, sums": TWO_TESTS_OF_SUMS,
        },
        sums={"": "difference"},
        answers=("yes", "no", "no", '`"difference"`'),
    ),
    "risk-ratio": EstimateEntry(
        path="labeldp.inference.regression:risk_ratio",
        help="Estimate the risk ratio of a class for an exposure.\n\n"
        "The exposure is public. A ratio of 1.2 is a relative lift of 20 %.",
        inputs=(EXPOSED, OUTCOME),
        rules={
            "risk ratio": TWO_TESTS,
            "risk ratio, sums": TWO_TESTS_OF_SUMS,
        },
        sums={"": "difference"},
        answers=("yes", "no", "no", '`"difference"`'),
    ),
    "evaluate": EstimateEntry(
        path="labeldp.inference.scores:score",
        help="Evaluate a model on noisy labels.\n\n"
        "The model must not have been trained on these labels. The result is overall, or by a public column.",
        inputs=(
            Input(
                "probabilities",
                "numbers",
                "P(second of two classes), by a model.",
                required=True,
                role="probabilities",
            ),
            WHY,
            Input("score", "text", "The score.", default="accuracy", choices=SCORES),
            Input("gap", "switch", "With --by: differences to the largest group."),
            BY,
        ),
        rules={
            "accuracy": Rule("Clopper-Pearson interval of the answers", "exact"),
            "precision": Rule("Clopper-Pearson interval of the answers", "exact"),
            "recall": Rule("Fieller's interval; where answers are few, three exact intervals", "asymptotic"),
            "accuracy, sums": Rule(
                "exact intervals by predicted class and of its size, variances recovered", "asymptotic"
            ),
            "recall, sums": Rule("three exact intervals, which hold together", "exact"),
            "F1": Rule("Fieller's interval; where answers are few, three exact intervals", "asymptotic"),
            "confusion": Rule("two exact intervals, variances recovered", "asymptotic"),
            "confusion, normal": Rule("Student's interval of debiased answers", "asymptotic"),
            "area under the ROC curve": Rule(
                "Fieller's interval of two U-statistics, widened for skewness", "asymptotic"
            ),
            "average precision": Rule(
                "Fieller's interval of two statistics of pairs, widened for skewness", "asymptotic"
            ),
            "area under the ROC curve, sums": Rule(
                "test with the largest variance that the sums admit, inverted", "asymptotic"
            ),
            "log loss": Rule("Student's interval of debiased losses", "asymptotic"),
            "Brier score": Rule("Student's interval of debiased losses", "asymptotic"),
            "calibration": Rule("Clopper-Pearson interval of the answers", "exact"),
            "gap": Rule("difference of two intervals, variances recovered", "asymptotic"),
            "squared error": Rule("Student's interval of debiased squares", "asymptotic"),
            "squared error, sums": Rule(
                "quantile of the noise and the largest variance that the range admits", "asymptotic"
            ),
            "explained share": Rule("Fieller's interval", "asymptotic"),
            "explained share, sums": Rule("ratio of two intervals, which hold together", "asymptotic"),
        },
        sums={"accuracy": "evaluate", "precision": "evaluate", "recall": "evaluate", "auc": "auc"},
        answers=(
            "all metrics and curves",
            "errors: `evaluate_numbers`",
            "no",
            'accuracy, precision, recall: `"evaluate"`; AUC: `"auc"`',
        ),
    ),
    "compare": EstimateEntry(
        path="labeldp.inference.comparison:compare",
        help="Estimate how much more often one model is right.\n\n"
        "Compares two models that were not trained on these labels.",
        inputs=(
            Input("one", "codes", "The classes that a model predicts.", required=True, role="one", alias="predictions"),
            Input(
                "other", "codes", "The classes that another model predicts.", required=True, role="other", alias="rival"
            ),
            WHY,
        ),
        rules={
            "comparison": Rule("Clopper-Pearson intervals of how often the models differ and which is right", "exact"),
            "comparison, classes": Rule("Student's interval of debiased differences", "asymptotic"),
            "comparison, sums": Rule(
                "exact intervals by prediction and of its size, variances recovered", "asymptotic"
            ),
        },
        sums={"": "compare"},
        answers=("yes", "no", "no", 'two classes: `"compare"`'),
    ),
    "conformal": EstimateEntry(
        path="labeldp.inference.conformal:prediction_sets",
        help="Find prediction sets of classes, or intervals of numbers.\n\n"
        "The sets contain the label as often as --coverage says.",
        inputs=(
            Input(
                "probabilities",
                "chances",
                "By a model: P(second of two classes), or a column for each class in their order. Without it FILE must "
                "hold bins of absolute residuals.",
                alias="scores",
            ),
            Input("why", "why", "Why these labels did not make the probabilities."),
            Input("coverage", "number", "How often a set holds the label.", default=0.9),
            Input("risk", "number", "Probability that sets cover less.", default=0.05),
            Input("by_class", "switch", "Compute a threshold for each class."),
            BY,
        ),
        outputs=("out", "report", "as_json"),
        answers=("sets of classes", "no", "intervals", "no"),
    ),
    "monitor": EstimateEntry(
        path="labeldp.inference.sequences:monitor",
        help="Estimate a share, a mean or an effect over time.\n\n"
        "The intervals hold after every record, in the order of FILE.",
        inputs=(Input("treated", "numbers", "Who was treated: then the effect; else the share."), OUTCOME),
        rules={
            "sequence": Rule("beta-binomial confidence sequence of the answers", "anytime"),
            "sequence, numbers": Rule("betting confidence sequence", "anytime"),
            "sequence of a difference": Rule("betting confidence sequence of pairs", "anytime"),
        },
        answers=("yes", "yes", "no", "no"),
        details={"looks": (10, 200)},
    ),
}
"""Every command of `labeldp estimate`, by its name."""

RULES: Mapping[str, Rule] = {name: rule for entry in ESTIMATES.values() for name, rule in entry.rules.items()}
"""The default interval of each estimator: fixed beforehand, and never chosen by the widths that came out."""
