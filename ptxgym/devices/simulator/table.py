"""The table: one row per form of an instruction.

A row is data (opcode, modifiers, types, architectures, ISA section, counter class) beside the function
that builds its step.  The machine looks a row up and never names an instruction; an opcode that no row
accepts raises :class:`UnknownInstruction`.

Two kinds of function stand beside rows:

* *elementwise*: ``build(form) -> f`` where ``f`` maps operand arrays to the result array.  The signature
  says how operands are typed: ``"d:a,b"`` with each letter ``T`` (first type of the opcode), ``U``
  (second type), ``W`` (twice as wide as T), or a type name; a final ``*`` repeats the letter before it.
* *effect*: ``bind(binder) -> step`` where ``step(context)`` does the work.  ``ends_block`` marks control
  flow and waits, whose step returns where to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ptxgym.devices.simulator.findings import SourceLine, UnknownInstruction
from ptxgym.devices.simulator.types import SIZES

ALL_ARCHITECTURES = ("90a", "100a")

Elementwise = Callable[..., Any]
Builder = Callable[["Form"], Any]
Step = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    opcode: str
    """The part of the mnemonic before its modifiers, e.g. ``add`` or ``mbarrier.try_wait``."""
    types: tuple[str, ...]
    """Types that may follow; empty for none."""
    modifiers: frozenset[str]
    """Modifiers that may follow."""
    isa: str
    """Section of the PTX ISA (9.0 numbering) that the function was written from."""
    counter: str
    """Class under which executions are summed."""
    signature: str
    """Operand types of an elementwise row; empty for an effect."""
    build: Callable[..., Any] = field(repr=False)
    """The function."""
    architectures: tuple[str, ...] = ALL_ARCHITECTURES
    ends_block: bool = False
    """Control flow or a wait: the step returns the next instruction, or -1."""
    needs: frozenset[str] = frozenset()
    """Modifiers of which at least one must stand."""
    lenient: bool = False
    """Accepts ``m64n128k16``-like parts by its own parsing."""


@dataclass(frozen=True, slots=True)
class Form:
    """An opcode, taken apart."""

    opcode: str
    row: Row
    modifiers: frozenset[str]
    types: tuple[str, ...]
    parts: tuple[str, ...]
    """All parts after the row's opcode, in order."""

    def has(self, modifier: str) -> bool:
        """Whether the modifier stands."""
        return modifier in self.modifiers

    def one_of(self, names: tuple[str, ...], default: str = "") -> str:
        """The one of ``names`` that stands."""
        return next((n for n in names if n in self.modifiers), default)

    def type_of(self, letter: str) -> str:
        """A signature letter as a PTX type."""
        if letter == "T":
            return self.types[0]
        if letter == "U":
            return self.types[1]
        if letter == "W":
            return self.types[0][0] + str(16 * SIZES[self.types[0]])
        return letter


# Cache operators, eviction priorities and ordering words change timing or ordering between agents, never
# the value that a sequential executor produces (PTX ISA 9.7.9.1, 9.7.9.2).
_TIMING_WORDS = (
    "uni approx full ca cg cs lu cv wb wt nc volatile relaxed acquire release acq_rel weak sc cta cluster gpu sys "
    "L1::no_allocate L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L2::evict_first "
    "L2::evict_last L2::evict_normal L2::cache_hint L2::64B L2::128B L2::256B aligned sync mmio"
)
IGNORED = frozenset(_TIMING_WORDS.split())


@dataclass(frozen=True, slots=True)
class TypedUfunc:
    """A NumPy function that must compute in a wider type than its operands'."""

    function: Any
    dtype: Any


@dataclass(frozen=True, slots=True)
class InPlace:
    """A function that can also write its result straight into the destination; for rows that inner loops consist of."""

    function: Elementwise
    into: Callable[..., None]
    """``into(out, *operands)``."""

    def __call__(self, *operands: Any) -> Any:
        """The result as a new array."""
        return self.function(*operands)


class UnsupportedForm(Exception):  # noqa: N818 -- becomes UnknownInstruction where the line is known
    """A row's function does not cover this combination of modifiers and types."""


class Table:
    """All rows, found by opcode."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}

    def add(self, row: Row) -> None:
        """Add a row; later rows are tried first, so an override follows what it overrides."""
        self._rows.setdefault(row.opcode, []).insert(0, row)

    def rows(self) -> list[Row]:
        """Every row, for the support table and the tests."""
        return [row for rows in self._rows.values() for row in rows]

    def find(self, opcode: str, architecture: str, where: SourceLine) -> Form:
        """The form of a full opcode.

        Raises:
            UnknownInstruction: No row accepts it, or not on this architecture.
        """
        parts = opcode.split(".")
        elsewhere = False
        reason = ""
        for length in range(len(parts), 0, -1):
            for row in self._rows.get(".".join(parts[:length]), ()):
                form, missing = _match(row, opcode, parts[length:])
                if form is None:
                    reason = reason or missing
                elif architecture in row.architectures:
                    return form
                else:
                    elsewhere = True
        if elsewhere:
            reason = f"not an instruction of sm_{architecture}"
        raise UnknownInstruction(opcode, where, reason)


def _match(row: Row, opcode: str, rest: list[str]) -> tuple[Form | None, str]:
    types: list[str] = []
    modifiers: list[str] = []
    for part in rest:
        if part in row.modifiers or part in IGNORED or row.lenient:
            modifiers.append(part)
        elif part in SIZES:
            if part not in row.types:
                return None, f"type .{part}"
            types.append(part)
        else:
            return None, f"modifier .{part}"
    if row.needs and not row.needs.intersection(modifiers):
        return None, ""
    if row.types and not types and not row.lenient:
        return None, "no type"
    return Form(opcode, row, frozenset(modifiers), tuple(types), tuple(rest)), ""


TABLE = Table()


def elementwise(
    opcodes: str,
    types: str,
    function: Elementwise | None = None,
    *,
    isa: str,
    signature: str = "T:T,T",
    modifiers: str = "",
    counter: str = "alu",
    needs: str = "",
    architectures: tuple[str, ...] = ALL_ARCHITECTURES,
) -> Callable[[Builder], Builder]:
    """Add rows whose result is a function of the operands of the same lane.

    With ``function`` the rows are complete; otherwise use it as a decorator of ``build(form)``.
    """

    def register(build: Builder) -> Builder:
        for opcode in opcodes.split():
            TABLE.add(
                Row(opcode, tuple(types.split()), frozenset(modifiers.split()), isa, counter, signature, build,
                    architectures, needs=frozenset(needs.split()))
            )  # fmt: skip
        return build

    if function is not None:
        plain = function
        register(lambda form: plain)
    return register


def effect(
    opcodes: str,
    types: str = "",
    *,
    isa: str,
    modifiers: str = "",
    counter: str = "memory",
    ends_block: bool = False,
    lenient: bool = False,
    needs: str = "",
    architectures: tuple[str, ...] = ALL_ARCHITECTURES,
) -> Callable[[Callable[[Any], Step]], Callable[[Any], Step]]:
    """Add rows whose function binds an instruction to a step on the whole machine."""

    def register(bind: Callable[[Any], Step]) -> Callable[[Any], Step]:
        for opcode in opcodes.split():
            TABLE.add(
                Row(opcode, tuple(types.split()), frozenset(modifiers.split()), isa, counter, "", bind,
                    architectures, ends_block, frozenset(needs.split()), lenient)
            )  # fmt: skip
        return bind

    return register
