"""Brahmbhatt et al.: weighted aggregation into bags."""
