"""Methods of other papers on one footing: the same public rows, learner, epsilon and delta."""
