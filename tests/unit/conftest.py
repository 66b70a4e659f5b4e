"""Laws are checked on many examples; how long one takes is no law on a busy machine."""

from hypothesis import settings

settings.register_profile("laws", deadline=None)
settings.load_profile("laws")
