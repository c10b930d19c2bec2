"""`python -m labeldp` is `labeldp`."""

from labeldp.cli import main

main()
