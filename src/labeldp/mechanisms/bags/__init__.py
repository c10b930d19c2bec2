"""Mechanisms on sums over public bags of records, and their accounting."""
