"""A loaded PTX module: its kernels, its variables, and their programs per architecture."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np

from ptxgym.devices.simulator import instructions
from ptxgym.devices.simulator.findings import PtxSyntaxError
from ptxgym.devices.simulator.memory import GlobalMemory
from ptxgym.devices.simulator.program import (
    Program,
    align,
    parameter_offsets,
    variable_align,
    variable_bytes,
)
from ptxgym.devices.simulator.ptx.parser import parse
from ptxgym.devices.simulator.ptx.syntax import Function, Translation, Variable
from ptxgym.devices.simulator.types import SIZES, dtype_of


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter."""

    name: str
    offset: int
    """Bytes from the start of the parameter block."""
    size: int
    """Bytes."""
    align: int


@dataclass(slots=True)
class GlobalVariable:
    """A ``.global`` or ``.const`` variable of the module."""

    name: str
    space: str
    """``global`` or ``const``."""
    size: int
    """Bytes."""
    align: int
    initial: bytes
    """Its first contents; zeros where PTX gives none."""
    references: tuple[tuple[int, str, int], ...] = ()
    """Where initialisers name other variables: (offset, name, addend)."""
    address: int | None = None
    """Device address; set by whoever places it, else by the first launch."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A ``.entry``."""

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    """Size of the whole parameter block."""
    static_shared: int
    """Bytes of statically allocated shared memory."""
    maxntid: tuple[int, ...]
    """From ``__launch_bounds__``; empty when absent."""
    minnctapersm: int
    """Zero when absent."""
    cluster: tuple[int, int, int] | None
    """From ``__cluster_dims__``."""
    maxnreg: int
    """Zero when absent."""
    dynamic_align: int
    """Alignment of ``extern __shared__`` arrays."""


class Image:
    """A kernel's code for one architecture: the programs of it and of what it calls."""

    def __init__(self, unit: Translation, kernel: Function, architecture: str) -> None:
        self.architecture = architecture
        self.functions = unit.functions
        self.cancels_launches = False
        """Whether it asks for the work of clusters that have not begun; set by the instruction that does."""
        self._unit = unit
        self._shared, self.static_shared, self.dynamic_align = shared_layout(unit, kernel)
        self._sizes = {v.name: variable_bytes(v) for _, v in _shared_variables(unit, kernel)}
        self._programs: dict[str, Program] = {}
        self._count = 0
        self._names = list(unit.functions)
        self.entry = self.program(kernel.name)

    def next_number(self) -> int:
        """Number an instruction."""
        self._count += 1
        return self._count - 1

    @property
    def instruction_count(self) -> int:
        """Instructions decoded so far."""
        return self._count

    def program(self, name: str) -> Program:
        """The program of a function, decoded on first use."""
        found = self._programs.get(name)
        if found is None:
            function = self.functions[name]
            found = self._programs[name] = Program(function, self)
        return found

    def programs(self) -> list[Program]:
        """All decoded so far."""
        return list(self._programs.values())

    def function_number(self, name: str) -> int:
        """The value of a function pointer."""
        return 0x1000 + 16 * self._names.index(name)

    def function_name(self, pointer: int) -> str | None:
        """The function that a pointer names."""
        index, rest = divmod(pointer - 0x1000, 16)
        return self._names[index] if rest == 0 and 0 <= index < len(self._names) else None

    def shared_variable(self, offset: int) -> str:
        """The shared variable at an offset, with an index in units of eight bytes when it is inside an array."""
        below = [(start, name) for (_, name), start in self._shared.items() if start <= offset]
        if not below:
            return f"shared+{offset}"
        start, name = max(below)
        short = readable(name)
        inside = offset - start
        size = self._sizes.get(name, 0)
        if inside == 0 and size <= 8:
            return short
        return f"{short}[{inside // 8}]" if inside % 8 == 0 and size else f"{short}+{inside}"

    def shared_offset(self, function: str, scope: int, name: str) -> int:
        """Offset of a shared variable from the start of user shared memory."""
        found = self._shared.get((scope, name))
        if found is None:
            raise PtxSyntaxError(0, f"shared memory that kernel code can reach in {function}", name)
        return found


class Module:
    """A parsed PTX file.

    Attributes:
        kernels: By mangled name.
        globals: ``.global`` and ``.const`` variables by name.
        target: The PTX target, e.g. ``sm_90a``.
    """

    def __init__(self, unit: Translation) -> None:
        self._unit = unit
        self.target = unit.target
        self.kernels = {f.name: _kernel(unit, f) for f in unit.functions.values() if f.is_entry and f.defined}
        self.globals = {
            v.name: _global(v) for v in unit.variables.values() if v.space in ("global", "const") and not v.extern
        }
        self._images: dict[tuple[str, str], Image] = {}

    def image(self, kernel: str, architecture: str) -> Image:
        """A kernel's code, decoded once per architecture.

        Raises:
            UnknownInstruction: It, or a function that it calls, holds an opcode without a row.
            PtxSyntaxError: It names something undeclared.
        """
        key = (kernel, architecture)
        found = self._images.get(key)
        if found is None:
            found = self._images[key] = Image(self._unit, self._unit.functions[kernel], architecture)
        return found

    def place(self, memory: GlobalMemory, address: int) -> int:
        """Place every variable that has no address yet, from ``address`` up; returns the first free address."""
        fresh = [v for v in self.globals.values() if v.address is None]
        for variable in fresh:
            address = align(address, max(variable.align, 256))
            variable.address = address
            data = np.frombuffer(variable.initial, np.uint8).copy()
            memory.add(address, max(variable.size, 1), data, variable.name, readonly=variable.space == "const")
            address += max(variable.size, 1) + 256
        for variable in fresh:
            self._resolve(memory, variable)
        return address

    def _resolve(self, memory: GlobalMemory, variable: GlobalVariable) -> None:
        for offset, name, addend in variable.references:
            target = self.globals.get(name)
            if target is not None and target.address is not None and variable.address is not None:
                value = struct.pack("<Q", target.address + addend)
                memory.span(variable.address + offset, 8)[:] = np.frombuffer(value, np.uint8)


def load_module(ptx_text: str) -> Module:
    """Parse PTX text.

    Raises:
        PtxSyntaxError: The text is not PTX that the parser reads.
    """
    instructions.load()
    return Module(parse(ptx_text))


def readable(name: str) -> str:
    """The variable's own name inside a mangled local static (``_ZZ4gemmE4full`` is ``full``)."""
    if not name.startswith("_ZZ"):
        return name
    found = re.search(r"E(\d+)(\w+?)(?:_\d+)?$", name)
    return found[2][: int(found[1])] if found else name


def shared_layout(unit: Translation, kernel: Function) -> tuple[dict[tuple[int, str], int], int, int]:
    """Offsets of shared variables, bytes of the static ones, and the dynamic array's alignment.

    Static variables come first and the dynamic array behind them, aligned, as ptxas lays them out.
    """
    offsets: dict[tuple[int, str], int] = {}
    end = 0
    dynamic: list[tuple[int, Variable]] = []
    for number, variable in _shared_variables(unit, kernel):
        if variable.count == 0 or variable.extern:
            dynamic.append((number, variable))
            continue
        end = align(end, variable_align(variable))
        offsets[number, variable.name] = end
        end += variable_bytes(variable)
    alignment = max([variable_align(v) for _, v in dynamic] + [16])
    # ptxas aligns the absolute address; user memory starts at 1024, so larger alignments still hold.
    base = align(1024 + end, alignment) - 1024
    for number, variable in dynamic:
        offsets[number, variable.name] = base
    return offsets, end if not dynamic else base, alignment


def _shared_variables(unit: Translation, kernel: Function) -> list[tuple[int, Variable]]:
    functions = [kernel, *(f for f in unit.functions.values() if not f.is_entry and f.defined)]
    used = {word for f in functions for i in f.body for word in _names(i.operands)}
    result = [(unit.scope.number, v) for v in unit.variables.values() if v.space == "shared" and v.name in used]
    for function in functions:
        seen: set[int] = set()
        for scope in [function.scope, *(i.scope for i in function.body)]:
            if scope.number not in seen:
                seen.add(scope.number)
                result += [(scope.number, v) for v in scope.variables.values() if v.space == "shared"]
    return result


def _names(operands: tuple[object, ...]) -> set[str]:
    found: set[str] = set()
    for operand in operands:
        text = getattr(operand, "text", None)
        if text is not None:
            found.add(text)
        base = getattr(operand, "base", None)
        if base is not None:
            found |= _names((base,))
        found |= _names(getattr(operand, "items", ()))
        found |= _names(getattr(operand, "extra", ()))
    return found


def _kernel(unit: Translation, function: Function) -> Kernel:
    offsets = parameter_offsets(function)
    parameters = tuple(
        Parameter(p.name, offsets[p.name], variable_bytes(p), variable_align(p)) for p in function.parameters
    )
    _, static, dynamic_align = shared_layout(unit, function)
    words = function.directives
    cluster = words.get("reqnctapercluster")
    return Kernel(
        name=function.name,
        parameters=parameters,
        parameter_bytes=max((p.offset + p.size for p in parameters), default=0),
        static_shared=static,
        maxntid=words.get("maxntid") or words.get("reqntid") or (),
        minnctapersm=words.get("minnctapersm", (0,))[0],
        cluster=(*cluster, 1, 1, 1)[:3] if cluster else None,  # type: ignore[arg-type]
        maxnreg=words.get("maxnreg", (0,))[0],
        dynamic_align=dynamic_align,
    )


def _global(variable: Variable) -> GlobalVariable:
    size = variable_bytes(variable)
    element = SIZES.get(variable.type, 8)
    data = bytearray(size)
    references: list[tuple[int, str, int]] = []
    for index, value in enumerate(variable.initial):
        at = index * element
        if isinstance(value, str):
            name, _, addend = value.partition("+")
            references.append((at, name, int(addend or 0)))
        else:
            data[at : at + element] = _element(variable.type, value, element)
    return GlobalVariable(variable.name, variable.space, size, variable_align(variable), bytes(data), tuple(references))


def _element(kind: str, value: int | float, size: int) -> bytes:
    if isinstance(value, float):
        return np.array(value, dtype_of(kind)).tobytes()
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


__all__ = ["GlobalVariable", "Image", "Kernel", "Module", "Parameter", "load_module"]
