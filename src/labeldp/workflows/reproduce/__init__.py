"""Published comparisons, run again: every number is a file, every table and figure is made of files."""

from labeldp.workflows.reproduce.aggregation import AggregationGrid, AggregationResult, reproduce_aggregation
from labeldp.workflows.reproduce.experiment import reproduce_multistage
from labeldp.workflows.reproduce.grid import FIGURES, METHODS, Grid, Run
from labeldp.workflows.reproduce.online import OnlineResult, reproduce_online
from labeldp.workflows.reproduce.online_cells import AutoChoice, OnlineCell, auto_choices, online_cells
from labeldp.workflows.reproduce.online_grid import OnlineGrid
from labeldp.workflows.reproduce.online_tables import OnlinePoint
from labeldp.workflows.reproduce.rates import RateGrid, RateResult, reproduce_rates
from labeldp.workflows.reproduce.rates_slopes import ClassCurve, Slope, class_curves, slopes
from labeldp.workflows.reproduce.results import Result
from labeldp.workflows.reproduce.tasks import DATASETS

__all__ = [
    "DATASETS",
    "FIGURES",
    "METHODS",
    "AggregationGrid",
    "AggregationResult",
    "AutoChoice",
    "ClassCurve",
    "Grid",
    "OnlineCell",
    "OnlineGrid",
    "OnlinePoint",
    "OnlineResult",
    "RateGrid",
    "RateResult",
    "Result",
    "Run",
    "Slope",
    "auto_choices",
    "class_curves",
    "online_cells",
    "reproduce_aggregation",
    "reproduce_multistage",
    "reproduce_online",
    "reproduce_rates",
    "slopes",
]
