"""The version, so that a summary need not import the face."""

__version__ = "0.1.0"
