"""Devices that are not there, by the profiles of the program (``memopt devices``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import memopt

from ._plan import PlanError


@dataclass(frozen=True)
class Device:
    """A device by its figures (docs/schemas/device.schema.json).

    Attributes:
        name: as the program lists it: ``h100``.
        products, loops: floating-point operations in a second, by type: ``bfloat16``.
        traffic: bytes that are read and written in a second.
        launch: seconds of a kernel without arithmetic and traffic.
        memory_bytes: its memory; 0 where that is not known.
        reserve_bytes: of that, the part that no step can have.
    """

    name: str
    products: Mapping[str, float]
    loops: Mapping[str, float]
    traffic: float
    launch: float
    memory_bytes: int
    reserve_bytes: int

    @property
    def type(self) -> str:
        """The type that PyTorch gives to the device's tensors."""
        return "cpu" if self.name == "cpu" else "cuda"


def named(name: str) -> Device:
    """The device of a name, such as "H100", or of a file of that form.

    Raises:
        PlanError: there is none; the message lists those that there are.
    """
    try:
        text = memopt.run("devices", name, "-O", "json", variables=False)
    except memopt.Error as e:
        raise PlanError(f"device={name!r}: {e}") from None
    return _read(json.loads(text)["devices"][0])


def by_torch(title: str) -> Device | None:
    """The device that PyTorch calls by a title, such as "NVIDIA H100 80GB HBM3"; None where there is no profile."""
    words = "".join(c for c in title.lower() if c.isalnum())
    listed = [_read(d) for d in json.loads(memopt.run("devices", "-O", "json", variables=False))["devices"]]
    found = [d for d in listed if d.name.partition("-")[0] in words]
    return max(found, key=lambda d: len(d.name.partition("-")[0]), default=None)


def _read(d: Mapping[str, Any]) -> Device:
    return Device(
        name=d["name"],
        products=d["products_flops"],
        loops=d["loops_flops"],
        traffic=d["bytes_per_second"],
        launch=d["launch_seconds"],
        memory_bytes=d["memory_bytes"],
        reserve_bytes=d["reserve_bytes"],
    )
