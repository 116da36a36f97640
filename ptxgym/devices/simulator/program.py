"""A function of the module, decoded for one architecture: instructions with bound steps, and blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgym.devices.simulator.binder import Binder
from ptxgym.devices.simulator.findings import PtxSyntaxError, SourceLine
from ptxgym.devices.simulator.ptx.syntax import Function, Name, Scope, Variable, Vector
from ptxgym.devices.simulator.slots import ConstantSlot, LaneSlot, RegisterSlot, Slot
from ptxgym.devices.simulator.table import TABLE, Form, Step
from ptxgym.devices.simulator.types import SIZES

_INDEXED = re.compile(r"(.*?)(\d+)$", re.DOTALL)


@dataclass(slots=True)
class Decoded:
    """An instruction ready to execute."""

    opcode: str
    where: SourceLine
    form: Form
    step: Step
    number: int
    """Unique among the instructions of the image."""
    pc: int
    predicated: bool
    ends_block: bool
    registers: frozenset[tuple[str, int]]
    """Every register that it names, for the checks of asynchronous operands."""


@dataclass(slots=True)
class Block:
    """Instructions that execute together, from any pc to the next branch, wait or label."""

    start: int
    straight: tuple[Decoded, ...]
    """All but a final branch or wait."""
    control: Step | None
    next: int
    size: int
    instructions: tuple[Decoded, ...] = field(repr=False)


def align(value: int, to: int) -> int:
    """``value`` rounded up."""
    return -(-value // max(to, 1)) * max(to, 1)


def variable_bytes(variable: Variable) -> int:
    """Size of a variable."""
    kind = variable.type
    repeat = 1
    if kind.startswith("v"):
        count, kind = kind[1:].split(".")
        repeat = int(count)
    return SIZES.get(kind, 8) * repeat * variable.count


def variable_align(variable: Variable) -> int:
    """Alignment of a variable; by default its element's size."""
    element = variable_bytes(variable) // variable.count if variable.count else 1
    return max(variable.align if variable.space != "param" or variable.type == "b8" else 0, min(element, 16), 1)


class Program:
    """One function."""

    def __init__(self, function: Function, image: Any) -> None:
        self.function = function
        self.name = function.name
        self.image = image
        self.slots: list[Slot] = []
        self._slot_numbers: dict[Any, int] = {}
        self.bank_sizes: dict[str, int] = dict.fromkeys(("pred", "b8", "b16", "b32", "b64"), 0)
        self._registers: dict[tuple[int, str], tuple[str, int]] = {}
        self.local_offsets, self.local_bytes = self._lay_out("local")
        self.param_offsets, self.param_bytes = self._lay_out_parameters()
        self._number_vectors()
        self.labels: set[int] = set()
        self.instructions: list[Decoded] = []
        self._blocks: dict[int, Block] = {}
        self._decode()

    # -- layout --------------------------------------------------------------------------------------

    def scopes(self) -> list[Scope]:
        """The function's scopes, outermost first."""
        seen: dict[int, Scope] = {self.function.scope.number: self.function.scope}
        for instruction in self.function.body:
            scope: Scope | None = instruction.scope
            while scope is not None and scope.parent is not None:
                seen.setdefault(scope.number, scope)
                scope = scope.parent
        return [seen[number] for number in sorted(seen)]

    def _lay_out(self, space: str) -> tuple[dict[tuple[int, str], int], int]:
        offsets: dict[tuple[int, str], int] = {}
        end = 0
        for scope in self.scopes():
            for variable in scope.variables.values():
                if variable.space == space:
                    end = align(end, variable_align(variable))
                    offsets[scope.number, variable.name] = end
                    end += variable_bytes(variable)
        return offsets, align(end, 16)

    def _lay_out_parameters(self) -> tuple[dict[tuple[int, str], int], int]:
        if self.function.is_entry:
            own = {p.name for p in self.function.parameters}
            offsets = {(self.function.scope.number, n): o for n, o in parameter_offsets(self.function).items()}
            end = 0
        else:
            own, offsets, end = set(), {}, 0
        for scope in self.scopes():
            for variable in scope.variables.values():
                if variable.space == "param" and variable.name not in own:
                    end = align(end, max(variable_align(variable), 16))
                    offsets[scope.number, variable.name] = end
                    end += variable_bytes(variable)
        return offsets, align(end, 16)

    def _number_vectors(self) -> None:
        """Give the registers of long vectors (accumulators) neighbouring rows, so that they are one view."""
        for instruction in self.function.body:
            first = instruction.operands[0] if instruction.operands else None
            if isinstance(first, Vector) and len(first.items) >= 8:
                for item in first.items:
                    if isinstance(item, Name):
                        self.register(instruction.scope, item.text)

    # -- names ---------------------------------------------------------------------------------------

    def register(self, scope: Scope, name: str) -> tuple[str, int] | None:
        """Bank and row of a register, or None for any other name."""
        at: Scope | None = scope
        while at is not None:
            kind = at.registers.get(name)
            if kind is None and at.ranges:
                found = _INDEXED.match(name)
                entry = at.ranges.get(found[1]) if found else None
                if found and entry and int(found[2]) < entry[0]:
                    kind = entry[1]
            if kind is not None:
                return self._row(at.number, name, kind)
            at = at.parent
        return None

    def _row(self, scope: int, name: str, kind: str) -> tuple[str, int]:
        found = self._registers.get((scope, name))
        if found is None:
            bank = "pred" if kind == "pred" else f"b{8 * SIZES[kind]}"
            if bank == "b128":
                found = ("b128", self.bank_sizes["b64"])
                self.bank_sizes["b64"] += 2
            else:
                found = (bank, self.bank_sizes[bank])
                self.bank_sizes[bank] += 1
            self._registers[scope, name] = found
        return found

    def variable(self, scope: Scope, name: str) -> tuple[Variable, Scope] | None:
        """A variable by name, with the scope that declares it."""
        at: Scope | None = scope
        while at is not None:
            found = at.variables.get(name)
            if found is not None:
                return found, at
            at = at.parent
        return None

    def label(self, scope: Scope, name: str) -> int | None:
        """The instruction that a label names."""
        at: Scope | None = scope
        while at is not None:
            if name in at.labels:
                return at.labels[name]
            at = at.parent
        return None

    # -- slots ---------------------------------------------------------------------------------------

    def slot(self, key: Any, make: Any) -> int:
        """The number of a slot, made once per key."""
        number = self._slot_numbers.get(key)
        if number is None:
            number = self._slot_numbers[key] = len(self.slots)
            self.slots.append(make())
        return number

    def register_slot(self, bank: str, row: int, dtype: np.dtype[Any]) -> int:
        """A register as ``dtype``."""
        return self.slot(("r", bank, row, dtype.str), lambda: RegisterSlot(bank, row, dtype))

    def constant_slot(self, value: np.ndarray[Any, Any]) -> int:
        """A literal."""
        return self.slot(("c", value.dtype.str, value.tobytes()), lambda: ConstantSlot(value))

    def lane_slot(self, key: Any, compute: Any, dtype: np.dtype[Any], lasting: bool = True) -> int:
        """A value per lane."""
        return self.slot(("l", key, dtype.str), lambda: LaneSlot(compute, dtype, lasting))

    # -- code ----------------------------------------------------------------------------------------

    def _decode(self) -> None:
        body = self.function.body
        for scope in self.scopes():
            self.labels.update(scope.labels.values())
        for pc, instruction in enumerate(body):
            form = TABLE.find(instruction.opcode, self.image.architecture, instruction.where)
            binder = Binder(self, instruction, form, pc, self.image.next_number())
            step = binder.bind()
            self.instructions.append(
                Decoded(instruction.opcode, instruction.where, form, step, binder.number, pc,
                        instruction.predicate is not None, form.row.ends_block, frozenset(binder.registers))
            )  # fmt: skip

    def block(self, pc: int) -> Block:
        """The block that starts at ``pc``."""
        found = self._blocks.get(pc)
        if found is None:
            found = self._blocks[pc] = self._make_block(pc)
        return found

    def _make_block(self, pc: int) -> Block:
        end = pc
        control: Step | None = None
        taken: list[Decoded] = []
        while end < len(self.instructions):
            if end > pc and end in self.labels:
                break
            instruction = self.instructions[end]
            taken.append(instruction)
            end += 1
            if instruction.ends_block:
                control = instruction.step
                break
        straight = tuple(i for i in taken if not i.ends_block)
        return Block(pc, straight, control, end, len(taken), tuple(taken))


def parameter_offsets(function: Function) -> dict[str, int]:
    """Byte offsets of a kernel's parameters (C layout, as the driver passes them)."""
    offsets: dict[str, int] = {}
    end = 0
    for parameter in function.parameters:
        end = align(end, variable_align(parameter))
        offsets[parameter.name] = end
        end += variable_bytes(parameter)
    return offsets


def undefined(name: Name | str, line: int) -> PtxSyntaxError:
    """A name that nothing declares."""
    text = name if isinstance(name, str) else name.text
    return PtxSyntaxError(line, "a declared name", text)
