"""Every public estimator goes through scikit-learn's checks; what fails there is listed with its reason."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

import labeldp as ldp
from labeldp import learners
from learners import labeled

CASES: dict[str, Any] = {
    "BagRegressor": labeled.BagRegressor(LinearRegression()),
    "CellClassifier": labeled.CellClassifier(learners.MedianPartition(4)),
    "CellRegressor": labeled.CellRegressor(learners.MedianPartition(4)),
    "CellTreesClassifier": labeled.CellTreesClassifier(),
    "CellTreesRegressor": labeled.CellTreesRegressor(),
    "CompactPartition": learners.CompactPartition(2),
    "CubePartition": learners.CubePartition(2.0),
    "GridClassifier": labeled.GridClassifier(),
    "GridRegressor": labeled.GridRegressor(),
    "KMeansPartition": learners.KMeansPartition(2),
    "KernelClassifier": learners.KernelClassifier(components=20),
    "LinearClassifier": labeled.LinearClassifier(),
    "LinearRegressor": labeled.LinearRegressor(),
    "LinearRegressor of bags": labeled.LinearRegressorOfBags(),
    "LossClassifier": labeled.LossClassifier(),
    "MedianPartition": learners.MedianPartition(2),
    "NeighborsClassifier": labeled.NeighborsClassifier(2),
    "NeighborsRegressor": labeled.NeighborsRegressor(2),
    "NoisyLabelClassifier": learners.NoisyLabelClassifier(LogisticRegression(), epsilon=4.0, folds=2),
    "NoisyNumberRegressor": labeled.NoisyNumberRegressor(LinearRegression()),
    "PatchFilters": labeled.PatchFilters(side=1, patch=1, filters=2, regions=1),
    "RandomFourier": learners.RandomFourier(components=5),
    "TableMap": learners.TableMap(trees=5),
    "TreePartition": learners.TreePartition(DecisionTreeRegressor(max_depth=2, random_state=0)),
}


def failing(name: str) -> list[Any]:
    return [r for r in check_estimator(CASES[name], on_skip=None, on_fail=None) if r["status"] == "failed"]

if __name__ == "__main__":
    import sys, traceback, warnings
    warnings.simplefilter("ignore")
    for name in sys.argv[1:] or CASES:
        import time; t=time.time()
        bad = failing(name)
        print("==", name, round(time.time()-t,1))
        for r in bad:
            e=r["exception"]; c=e.__cause__ or e.__context__
            print("   ", r["check_name"], "|", type(e).__name__, str(e)[:160].replace("\n"," "), "| cause", type(c).__name__, str(c)[:300].replace("\n"," "))
