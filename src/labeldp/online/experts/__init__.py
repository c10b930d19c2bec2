"""Experts: one of d is played in each round."""
