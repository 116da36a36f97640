"""The version, where the build and the records read it."""

__version__ = "0.1.0"
