"""`labeldp fit`: settings, data, recipes, the run, the bundle on disk and its summary."""
