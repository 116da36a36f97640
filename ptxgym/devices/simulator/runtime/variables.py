"""The variables of a module: where they lie, and what they hold at first; and what the driver adds to a launch."""

from __future__ import annotations

import re
import struct

import numpy as np

from ptxgym.devices.simulator.module import Module, load_module
from ptxgym.devices.simulator.runtime.device_memory import DeviceMemory
from ptxgym.devices.simulator.runtime.protocol import MemoryKind

_MANAGED = re.compile(r"\.attribute\s*\(\s*\.managed\s*\)[^;=\[{]*?([A-Za-z_$%][\w$]*)\s*[;=\[]")


def place_variables(module: Module, text: str, memory: DeviceMemory) -> None:
    """Allocate every ``.global`` and ``.const`` variable and write its initial content.

    Args:
        module: The parsed PTX.
        text: The PTX, which alone says which variables are managed (PTX ISA 5.4.8).
        memory: Where they go.
    """
    managed = set(_MANAGED.findall(text))
    for variable in module.globals.values():
        kind = MemoryKind.MANAGED if variable.name in managed else MemoryKind.VARIABLE
        readonly = variable.space == "const"
        block = memory.allocate(max(variable.size, 1), kind, variable.name, initialised=True, readonly=readonly)
        variable.address = block.address
        initial = np.frombuffer(variable.initial[: variable.size], np.uint8)
        memory.arena.view(block.address, len(initial))[:] = initial
    for variable in module.globals.values():
        _resolve(module, variable.address or 0, variable.references, memory)


def _resolve(module: Module, address: int, references: tuple[tuple[int, str, int], ...], memory: DeviceMemory) -> None:
    """Write the addresses of other variables where initialisers name them."""
    for offset, name, addend in references:
        target = module.globals.get(name)
        if target is not None and target.address is not None:
            value = struct.pack("<Q", target.address + addend)
            memory.arena.view(address + offset, 8)[:] = np.frombuffer(value, np.uint8)


class GridWorkspace:
    """The barrier of a cooperative grid, whose address the driver puts into ``%envreg1`` and ``%envreg2``.

    ``cooperative_groups/details/driver_abi.h``: eight bytes, the size and the barrier. In other launches the address is
    zero, by which ``this_grid().sync()`` knows that it may not be called. So a cooperative launch runs a twin of the
    module in which the two registers are numbers.
    """

    def __init__(self, module: Module, text: str, memory: DeviceMemory) -> None:
        self._plain, self._text = module, text
        self._address = memory.allocate(64, MemoryKind.VARIABLE, "grid workspace", initialised=True).address
        self._twin: Module | None = None

    @staticmethod
    def is_used(text: str) -> bool:
        """Whether a module synchronises its grid."""
        return "%envreg2" in text

    def module(self) -> Module:
        """The twin; both have the same variables."""
        if self._twin is None:
            low, high = self._address & 0xFFFFFFFF, self._address >> 32
            text = re.sub(r"%envreg1\b", str(high), self._text)
            self._twin = load_module(re.sub(r"%envreg2\b", str(low), text))
            for name, variable in self._twin.globals.items():
                variable.address = self._plain.globals[name].address
        return self._twin
