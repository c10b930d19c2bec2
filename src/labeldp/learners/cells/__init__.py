"""Learning by cells: partitions of the features, local and central."""
