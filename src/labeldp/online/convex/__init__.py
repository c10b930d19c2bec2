"""Convex losses: points of a box, a ball or a space, one in each round."""
