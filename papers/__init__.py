"""Comparisons with the four papers and with other methods, run from a checkout by `python -m papers`.

Every number is a file, every table and figure is made of files. Nothing of labeldp imports this.
"""
