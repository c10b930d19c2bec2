"""Exact draws: who needs noise, draws it here from uniform words."""

from labeldp.sampling.alias import AliasTable
from labeldp.sampling.discrete import (
    MAX_CELLS,
    MAX_STDDEV,
    MIN_RATE,
    MIN_STDDEV,
    SMOOTHING,
    discrete_gaussian,
    discrete_laplace,
    draw_index,
    exp_coins,
    falls_below,
    gaussian_law,
    keep_coins,
    laplace_law,
)
from labeldp.sampling.fast import WIDE_STDDEV, wide_gaussian, wide_laplace
from labeldp.sampling.words import (
    NORMAL_ERROR,
    SEED_WORDS,
    RecordStream,
    WordStream,
    fresh_seed,
    fresh_words,
    normals,
    public_stream,
    uniform,
)

__all__ = [
    "MAX_CELLS",
    "MAX_STDDEV",
    "MIN_RATE",
    "MIN_STDDEV",
    "NORMAL_ERROR",
    "SEED_WORDS",
    "SMOOTHING",
    "WIDE_STDDEV",
    "AliasTable",
    "RecordStream",
    "WordStream",
    "discrete_gaussian",
    "discrete_laplace",
    "draw_index",
    "exp_coins",
    "falls_below",
    "fresh_seed",
    "fresh_words",
    "gaussian_law",
    "keep_coins",
    "laplace_law",
    "normals",
    "public_stream",
    "uniform",
    "wide_gaussian",
    "wide_laplace",
]
