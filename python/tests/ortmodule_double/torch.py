"""A double: ORTModule asks for the rank alone."""

from types import SimpleNamespace

distributed = SimpleNamespace(is_available=lambda: False)
