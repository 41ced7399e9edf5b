"""Property tests take the same examples everywhere, and may take their time on a busy machine."""

from hypothesis import settings

settings.register_profile("hexenv", deadline=None, derandomize=True)
settings.load_profile("hexenv")
