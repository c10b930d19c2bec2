"""The version, so that a summary need not import the face."""

__version__ = "1.1.0.dev0"
