"""Hypothesis runs without deadlines: on a busy machine, one example may take long."""

from hypothesis import settings

settings.register_profile("laws", deadline=None)
settings.load_profile("laws")
