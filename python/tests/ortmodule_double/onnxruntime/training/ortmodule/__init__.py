"""A double."""

_FALLBACK_INIT_EXCEPTION = None
