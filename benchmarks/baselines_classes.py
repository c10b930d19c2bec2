"""Classes: the defaults beside what takes a few lines, on the same tables, splits and noise seeds.

    python benchmarks/baselines_classes.py [--tables setting] [--epsilons 0.5 1 2] [--seeds 5] [--store FILE.csv]

Tables in `SETTING` set the constants of learners, with synthetic ones; tables in `SCORING` were run once, after all
constants were fixed. A seed draws the records, the test part and the noise of all methods.
"""

SETTING = ("adult", "magic", "covertype", "bank")
SCORING = ("elec2", "credit", "higgs", "hillstrom", "census", "skin")
