"""Zhao et al.: rates of nonparametric learners."""
