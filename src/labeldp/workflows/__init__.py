"""Put together: the curator, its durable ledger, fits and releases of whole files."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.workflows.bag_files import release_bags
    from labeldp.workflows.bag_reading import read_bags
    from labeldp.workflows.certificates import verify
    from labeldp.workflows.curator import Curator
    from labeldp.workflows.demo import run_demo
    from labeldp.workflows.estimated import Estimated, amount
    from labeldp.workflows.fit import fit_file
    from labeldp.workflows.fit_settings import FitSettings
    from labeldp.workflows.ledger_file import Change, Comparisons, DatasetLedger, Entry, LedgerFile
    from labeldp.workflows.ledger_view import add_dataset, describe_budget, describe_ledger
    from labeldp.workflows.online_plan import online_plan_lines, plan_online
    from labeldp.workflows.online_run import OnlineRun, run_online
    from labeldp.workflows.planning import Plan, PlanRow, Question, make_plan
    from labeldp.workflows.planning_file import PublicFeatures, read_features
    from labeldp.workflows.planning_words import plan_lines
    from labeldp.workflows.predict import predict_file
    from labeldp.workflows.release import release_file, verify_file
    from labeldp.workflows.reproduce import (
        AggregationGrid,
        AggregationResult,
        AutoChoice,
        ClassCurve,
        Grid,
        OnlineCell,
        OnlineGrid,
        OnlinePoint,
        OnlineResult,
        RateGrid,
        RateResult,
        Result,
        Run,
        Slope,
        auto_choices,
        class_curves,
        online_cells,
        reproduce_aggregation,
        reproduce_multistage,
        reproduce_online,
        reproduce_rates,
        slopes,
    )
    from labeldp.workflows.settings import classes_of, domain_of
    from labeldp.workflows.spoken import spoken_lines
    from labeldp.workflows.summary import (
        BudgetUse,
        CertificateRow,
        Confusion,
        Cost,
        Curve,
        CurvePoint,
        Dropped,
        FitSummary,
        Importance,
        PublicTest,
        Stage,
    )
    from labeldp.workflows.summary_numbers import Across, Bin, Numbers, NumberTest, Picture
    from labeldp.workflows.verdict import Verdict

_FILES = {
    "certificates": "verify",
    "curator": "Curator",
    "demo": "run_demo",
    "fit": "fit_file",
    "fit_settings": "FitSettings",
    "ledger_file": "Change Comparisons DatasetLedger Entry LedgerFile",
    "ledger_view": "add_dataset describe_budget describe_ledger",
    "online_plan": "online_plan_lines plan_online",
    "online_run": "OnlineRun run_online",
    "planning": "Plan PlanRow Question make_plan",
    "planning_file": "PublicFeatures read_features",
    "planning_words": "plan_lines",
    "predict": "predict_file",
    "release": "release_file verify_file",
    "bag_files": "release_bags",
    "bag_reading": "read_bags",
    "reproduce": (
        "AggregationGrid AggregationResult AutoChoice ClassCurve Grid OnlineCell OnlineGrid OnlinePoint OnlineResult "
        "RateGrid RateResult Result Run Slope auto_choices class_curves online_cells reproduce_aggregation "
        "reproduce_multistage reproduce_online reproduce_rates slopes"
    ),
    "settings": "classes_of domain_of",
    "spoken": "spoken_lines",
    "summary": (
        "BudgetUse CertificateRow Confusion Cost Curve CurvePoint Dropped FitSummary Importance PublicTest Stage"
    ),
    "estimated": "Estimated amount",
    "summary_numbers": "Across Bin NumberTest Numbers Picture",
    "verdict": "Verdict",
}
_HOME = {name: file for file, names in _FILES.items() for name in names.split()}

__all__ = [
    "Across",
    "AggregationGrid",
    "AggregationResult",
    "AutoChoice",
    "Bin",
    "BudgetUse",
    "CertificateRow",
    "Change",
    "ClassCurve",
    "Comparisons",
    "Confusion",
    "Cost",
    "Curator",
    "Curve",
    "CurvePoint",
    "DatasetLedger",
    "Dropped",
    "Entry",
    "Estimated",
    "FitSettings",
    "FitSummary",
    "Grid",
    "Importance",
    "LedgerFile",
    "NumberTest",
    "Numbers",
    "OnlineCell",
    "OnlineGrid",
    "OnlinePoint",
    "OnlineResult",
    "OnlineRun",
    "Picture",
    "Plan",
    "PlanRow",
    "PublicFeatures",
    "PublicTest",
    "Question",
    "RateGrid",
    "RateResult",
    "Result",
    "Run",
    "Slope",
    "Stage",
    "Verdict",
    "add_dataset",
    "amount",
    "auto_choices",
    "class_curves",
    "classes_of",
    "describe_budget",
    "describe_ledger",
    "domain_of",
    "fit_file",
    "make_plan",
    "online_cells",
    "online_plan_lines",
    "plan_lines",
    "plan_online",
    "predict_file",
    "read_bags",
    "read_features",
    "release_bags",
    "release_file",
    "reproduce_aggregation",
    "reproduce_multistage",
    "reproduce_online",
    "reproduce_rates",
    "run_demo",
    "run_online",
    "slopes",
    "spoken_lines",
    "verify",
    "verify_file",
]


def __getattr__(name: str) -> Any:
    """Names are imported when they are first used: a curator needs neither tables nor learners."""
    if name not in _HOME:
        raise AttributeError(f"module 'labeldp.workflows' has no attribute {name!r}")
    return getattr(import_module(f"labeldp.workflows.{_HOME[name]}"), name)
