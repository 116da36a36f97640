"""The syntax tree of PTX: frozen records, no meaning.

PTX ISA 4 (syntax), 5 (state spaces), 6 (operands).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxgym.devices.simulator.findings import SourceLine


@dataclass(frozen=True, slots=True)
class Name:
    """A register, label, variable or special register, by its spelling."""

    text: str
    negated: bool = False
    """``!p``."""


@dataclass(frozen=True, slots=True)
class Number:
    """A literal; ``bits`` is set for the hexadecimal float forms ``0f…`` and ``0d…``."""

    value: int | float
    bits: int | None = None
    width: int = 0


@dataclass(frozen=True, slots=True)
class Sum:
    """``symbol + constant`` outside of brackets."""

    base: Name
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """``(a, b)``: the argument lists of ``call``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]`` or ``[base, extra, ...]``."""

    base: Operand
    offset: int = 0
    extra: tuple[Operand, ...] = ()


Operand = Name | Number | Sum | Vector | Group | Pair | Address


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter."""

    space: str
    type: str
    name: str
    align: int
    count: int
    """Number of elements; 0 for ``[]``."""
    initial: tuple[int | float | str, ...] = ()
    extern: bool = False


@dataclass(slots=True)
class Scope:
    """The names declared between a pair of braces."""

    parent: Scope | None = field(repr=False)
    number: int
    registers: dict[str, str] = field(default_factory=dict)
    """Name to type."""
    ranges: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Prefix to (count, type), from ``.reg .b32 %r<10>``."""
    labels: dict[str, int] = field(default_factory=dict)
    """Name to instruction index."""
    variables: dict[str, Variable] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """``.branchtargets`` lists."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement."""

    opcode: str
    """With all modifiers."""
    predicate: Name | None
    operands: tuple[Operand, ...]
    scope: Scope
    where: SourceLine
    ptx_line: int


@dataclass(slots=True)
class Function:
    """A ``.entry`` or ``.func``."""

    name: str
    is_entry: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    scope: Scope
    body: list[Instruction] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """``maxntid``, ``minnctapersm``, ``reqnctapercluster``, ``maxnreg``, ``explicitcluster``."""
    defined: bool = False


@dataclass(slots=True)
class Translation:
    """A whole PTX file."""

    version: str = ""
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    scope: Scope = field(default_factory=lambda: Scope(None, 0))
