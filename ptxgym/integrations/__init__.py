"""Thin adaptors to RL frameworks, one module each, and the data set that they train on.

Importing this package imports no framework; importing ``ptxgym.integrations.X`` imports X where X asks for a subclass
of its own. All of them play a :class:`ptxgym.integrations.episode.Episode`, so that a submission earns the same whoever
trains on it. See ``docs/integrations.md``.
"""
