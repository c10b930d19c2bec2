"""Ghazi et al.: multi-stage randomized response."""
