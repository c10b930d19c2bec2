"""Scores for scikit-learn's model selection, on released labels."""

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import make_scorer

from labeldp.learners.evaluation import auc_estimate, log_losses
from labeldp.learners.evidence import inverse_table, released_codes
from labeldp.mechanisms import Classes
from labeldp.privacy import InputError

Metric = Literal["accuracy", "neg_log_loss", "roc_auc", "log_loss", "auc"]
METHODS: dict[str, Any] = {
    "accuracy": "predict",
    "neg_log_loss": "predict_proba",
    "roc_auc": ("decision_function", "predict_proba"),
}
SHORT = {"log_loss": "neg_log_loss", "auc": "roc_auc"}


def debiased_scorer(metric: Metric = "accuracy", *, mechanism: Any = None, domain: Classes | None = None) -> Any:
    """A scorer on released labels for `cross_val_score`, `GridSearchCV` and the like: choosing by it costs nothing.

    Where one mechanism made all labels, give it. Where records had different ones (several epsilons, say), give the
    domain and pass `debias(mechanism, noisy).values`, shape (n, K), as the metadata `indicators`, which scikit-learn
    cuts into folds with the rows: `debiased_scorer("accuracy", domain=domain).set_score_request(indicators=True)` with
    `params={"indicators": values}` and metadata routing enabled.

    Args:
        metric: by scikit-learn's name, larger is better: "accuracy"; "neg_log_loss", the negative log loss in nats;
            "roc_auc", the area under the ROC curve, two classes. "log_loss" and "auc" are other names of the last two.
        mechanism: what made the labels that are scored, which are class names or codes.
        domain: the declared classes, where `indicators` are passed.

    Raises:
        NotInvertibleError: some record had fewer candidates than classes.
    """
    measure = SHORT.get(metric, metric)
    if measure not in METHODS:
        raise InputError(f"metric must be one of {', '.join(METHODS)}")
    if (mechanism is None) == (domain is None):
        raise InputError("give either the mechanism that made all labels, or the domain and indicators as metadata")
    names = mechanism.domain if mechanism is not None else domain
    if not isinstance(names, Classes):
        raise InputError("the domain must be Classes")
    inverse = None if mechanism is None else inverse_table(mechanism)
    function = partial(_score, metric=measure, domain=names, inverse=inverse)
    return make_scorer(function, response_method=METHODS[measure], greater_is_better=measure != "neg_log_loss")


def _score(
    labels: Any,
    answers: Any,
    *,
    metric: str,
    domain: Classes,
    inverse: NDArray[np.float64] | None,
    indicators: Any = None,
) -> float:
    """One fold's score, from released labels and what the model answered."""
    if indicators is None and inverse is None:
        raise InputError("indicators must be passed: debias(mechanism, noisy).values, through metadata routing")
    known = indicators if inverse is None else inverse[released_codes(domain, labels)]
    values = np.asarray(known, dtype=np.float64)
    if values.shape != (len(labels), domain.size):
        raise InputError("indicators must have one row for each label and one column for each class")
    if metric == "accuracy":
        return float(values[np.arange(len(values)), released_codes(domain, answers)].mean())
    answers = np.asarray(answers, dtype=np.float64)
    if metric == "roc_auc":
        return auc_estimate(values, answers if answers.ndim == 1 else answers[:, 1])
    return float((values * log_losses(_columns(answers, domain))).sum(axis=1).mean())


def _columns(answers: NDArray[np.float64], domain: Classes) -> NDArray[np.float64]:
    """Probabilities, one column for each class; scikit-learn hands over the second alone where there are two."""
    rows = np.column_stack([1 - answers, answers]) if answers.ndim == 1 else answers
    if rows.shape[1] != domain.size:
        raise InputError(
            "the model must give a probability to every class of the domain: wrap it in NoisyLabelClassifier"
        )
    return rows
