"""Binds an instruction's operands to slots and its row's function to a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.findings import PtxSyntaxError, UnknownInstruction
from ptxgym.devices.simulator.ptx.syntax import Address, Instruction, Name, Number, Operand, Pair, Sum, Vector
from ptxgym.devices.simulator.slots import literal
from ptxgym.devices.simulator.specials import special_slot
from ptxgym.devices.simulator.table import Form, InPlace, Step, TypedUfunc, UnsupportedForm
from ptxgym.devices.simulator.types import Array, dtype_of, widened

AddressOf = Callable[[Context], Array]
SINK = -1
"""The slot of ``_``."""

_U32 = np.dtype(np.uint32)
_U64 = np.dtype(np.uint64)


class Binder:
    """One instruction while it is being bound; rows' functions ask it for operands."""

    def __init__(self, program: Any, instruction: Instruction, form: Form, pc: int, number: int) -> None:
        self.program = program
        self.instruction = instruction
        self.form = form
        self.pc = pc
        self.number = number
        self.where = instruction.where
        self.operands = instruction.operands
        self.registers: set[tuple[str, int]] = set()

    def bind(self) -> Step:
        """The step, with its predicate and its count."""
        row = self.form.row
        predicate = self.instruction.predicate
        slot = self.source(predicate, "pred") if predicate else SINK
        negated = predicate is not None and predicate.negated
        if row.signature:
            return self._elementwise(slot, negated)
        try:
            step: Step = row.build(self)
        except UnsupportedForm as reason:
            raise self.unknown(str(reason)) from None
        if predicate is None or getattr(step, "handles_predicate", False):
            return step
        if row.ends_block:
            return self._predicated_control(step, slot, negated)
        return self._predicated(step, slot, negated)

    def unknown(self, detail: str) -> UnknownInstruction:
        """This instruction has no row, for this reason."""
        return UnknownInstruction(self.instruction.opcode, self.where, detail)

    # -- elementwise ---------------------------------------------------------------------------------

    def _elementwise(self, predicate: int, negated: bool) -> Step:
        result, _, sources = self.form.row.signature.partition(":")
        letters = sources.split(",")
        if letters[-1] == "*":
            letters = letters[:-1] + [letters[-2]] * (len(self.operands) - len(letters))
        if len(self.operands) != len(letters) + 1:
            raise self.unknown(f"{len(self.operands)} operands, the row has {len(letters) + 1}")
        try:
            function = self.form.row.build(self.form)
        except UnsupportedForm as reason:
            raise self.unknown(str(reason)) from None
        inputs = [self.source(o, self.form.type_of(x)) for o, x in zip(self.operands[1:], letters, strict=True)]
        output = self.destination(self.operands[0], self.form.type_of(result))
        if predicate != SINK and isinstance(function, TypedUfunc):
            function = partial(function.function, dtype=function.dtype)
        if predicate == SINK:
            return _apply(function, inputs, output)
        return _apply_where(function, inputs, output, predicate, negated, self.number)

    # -- predicates ----------------------------------------------------------------------------------

    def _predicated(self, step: Step, slot: int, negated: bool) -> Step:
        number = self.number

        def run(x: Context) -> None:
            mask = x.get(slot)
            if negated:
                mask = ~mask
            count = int(np.count_nonzero(mask))
            if count:
                x.batch.predicated[number] += count
                if count == mask.size:
                    step(x)
                else:
                    lanes = x.lanes
                    x.enter(x.batch.pool.subset(lanes, mask), x.frame)
                    try:
                        step(x)
                    finally:
                        x.enter(lanes, x.frame)

        return run

    def _predicated_control(self, step: Step, slot: int, negated: bool) -> Step:
        number, after = self.number, self.pc + 1

        def run(x: Context) -> int:
            mask = x.get(slot)
            if negated:
                mask = ~mask
            count = int(np.count_nonzero(mask))
            x.batch.predicated[number] += count
            if count == 0:
                return after
            if count == mask.size:
                return int(step(x))
            lanes = x.lanes
            x.batch.ready(x.stack, after, x.batch.pool.subset(lanes, ~mask))
            taken = x.batch.pool.subset(lanes, mask)
            x.enter(taken, x.frame)
            pc = int(step(x))
            if pc >= 0:
                x.batch.ready(x.stack, pc, taken)
            return -1

        return run

    # -- operands ------------------------------------------------------------------------------------

    def source(self, operand: Operand, kind: str) -> int:
        """The slot of a source of PTX type ``kind``."""
        dtype = dtype_of(kind)
        if isinstance(operand, Number):
            is_float = isinstance(operand.value, float)
            return self.slot_of(literal(operand.value, operand.bits, operand.width, dtype, is_float))
        if isinstance(operand, Name):
            found = self.program.register(self.instruction.scope, operand.text)
            if found is not None:
                return self._register(found, dtype)
            return self._symbol(operand.text, 0, dtype)
        if isinstance(operand, Sum):
            return self._symbol(operand.base.text, operand.offset, dtype)
        if isinstance(operand, Address) and not operand.extra and operand.offset == 0:
            return self.source(operand.base, kind)
        raise PtxSyntaxError(self.instruction.ptx_line, "a source operand", str(operand)[:60])

    def slot_of(self, value: np.ndarray[Any, Any]) -> int:
        """The slot of a constant."""
        return int(self.program.constant_slot(value))

    def _register(self, found: tuple[str, int], dtype: np.dtype[Any]) -> int:
        self.registers.add(found)
        bank, row = found
        width = {"pred": 1, "b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 8}[bank]
        if dtype.kind == "b" and bank != "pred":
            raise PtxSyntaxError(self.instruction.ptx_line, "a predicate register", f"a {bank} register")
        if dtype.itemsize > width:
            raise PtxSyntaxError(
                self.instruction.ptx_line, f"a register of {8 * dtype.itemsize} bits", f"a {bank} register"
            )
        return int(self.program.register_slot("b64" if bank == "b128" else bank, row, dtype))

    def wide_register(self, operand: Operand) -> tuple[int, int]:
        """The two 64-bit halves of a ``.b128`` register."""
        if isinstance(operand, Name):
            found = self.program.register(self.instruction.scope, operand.text)
            if found and found[0] == "b128":
                self.registers.add(found)
                return (
                    int(self.program.register_slot("b64", found[1], _U64)),
                    int(self.program.register_slot("b64", found[1] + 1, _U64)),
                )
        raise PtxSyntaxError(self.instruction.ptx_line, "a .b128 register", str(operand)[:60])

    def destination(self, operand: Operand, kind: str) -> int:
        """The slot of a destination, widened to its register; ``_`` is the sink."""
        if not isinstance(operand, Name):
            raise PtxSyntaxError(self.instruction.ptx_line, "a destination register", str(operand)[:60])
        if operand.text == "_":
            return SINK
        found = self.program.register(self.instruction.scope, operand.text)
        if found is None:
            raise PtxSyntaxError(self.instruction.ptx_line, "a declared register", operand.text)
        bank, row = found
        self.registers.add(found)
        width = {"pred": 1, "b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 8}[bank]
        dtype = dtype_of(kind) if bank == "pred" else widened(kind, width)
        return int(self.program.register_slot("b64" if bank == "b128" else bank, row, dtype))

    def sources(self, operand: Operand, kind: str) -> list[int]:
        """The slots of a vector, or of a single operand."""
        items = operand.items if isinstance(operand, Vector) else (operand,)
        return [self.source(item, kind) for item in items]

    def destinations(self, operand: Operand, kind: str) -> list[int]:
        """The slots of a vector destination."""
        items = operand.items if isinstance(operand, Vector) else (operand,)
        return [self.destination(item, kind) for item in items]

    def pair(self, operand: Operand) -> tuple[Operand, Operand | None]:
        """``d|p`` as two operands."""
        if isinstance(operand, Pair):
            return operand.first, operand.second
        return operand, None

    def constant(self, operand: Operand) -> int:
        """An immediate integer.

        Raises:
            UnknownInstruction: It is a register, which the instruction does not take here.
        """
        if isinstance(operand, Number):
            return int(operand.value)
        raise self.unknown("an immediate is needed")

    def label(self, operand: Operand) -> int:
        """The pc that a label names."""
        if isinstance(operand, Name):
            found = self.program.label(self.instruction.scope, operand.text)
            if found is not None:
                return int(found)
        raise PtxSyntaxError(self.instruction.ptx_line, "a label", str(operand)[:60])

    # -- addresses and symbols -----------------------------------------------------------------------

    def address(self, operand: Operand) -> AddressOf:
        """A function that gives the addresses of ``[base + offset]``, one per lane."""
        if not isinstance(operand, Address):
            raise PtxSyntaxError(self.instruction.ptx_line, "an address", str(operand)[:60])
        base = operand.base
        if isinstance(base, Name):
            found = self.program.register(self.instruction.scope, base.text)
            if found is not None:
                return self._register_address(found, operand.offset)
            slot = self._symbol(base.text, operand.offset, _U64)
            return lambda x: x.get(slot)
        if isinstance(base, Number):
            slot = self.slot_of(np.array(int(base.value) + operand.offset, np.uint64))
            return lambda x: x.get(slot)
        raise PtxSyntaxError(self.instruction.ptx_line, "an address", str(operand)[:60])

    def _register_address(self, found: tuple[str, int], offset: int) -> AddressOf:
        dtype = _U64 if found[0] == "b64" else _U32
        slot = self._register(found, dtype)
        if offset == 0:
            return lambda x: x.get(slot)
        step = literal(offset, None, 0, dtype, False)
        return lambda x: x.get(slot) + step

    def _symbol(self, name: str, offset: int, dtype: np.dtype[Any]) -> int:
        scope = self.instruction.scope
        found = self.program.variable(scope, name)
        if found is not None:
            return self._variable_address(found, offset, dtype)
        if name.startswith("%") or name.startswith("WARP_SZ"):
            slot = special_slot(self.program, name, dtype)
            if slot is not None:
                return slot
        if name in self.program.image.functions:
            number = self.program.image.function_number(name)
            return self.slot_of(np.array(number, np.uint64).astype(dtype))
        raise PtxSyntaxError(self.instruction.ptx_line, "a declared name", name)

    def _variable_address(self, found: tuple[Any, Any], offset: int, dtype: np.dtype[Any]) -> int:
        variable, scope = found
        key = (variable.space, scope.number, variable.name, offset)
        if variable.space == "shared":
            base = self.program.image.shared_offset(self.program.name, scope.number, variable.name) + offset
            return int(self.program.lane_slot(key, lambda batch, frame: batch.shared_symbol(base), dtype))
        if variable.space == "local":
            start = self.program.local_offsets[scope.number, variable.name] + offset
            return int(self.program.lane_slot(key, lambda batch, frame: np.array(frame.local_base + start), dtype))
        if variable.space == "param":
            start = self.program.param_offsets[scope.number, variable.name] + offset
            return self.slot_of(np.array(start, dtype))
        name = variable.name
        return int(
            self.program.lane_slot(key, lambda batch, frame: np.array(batch.symbols[name] + offset, np.uint64), dtype)
        )

    def is_parameter(self, operand: Operand) -> bool:
        """Whether an address is that of a ``.param`` variable."""
        found = self._variable(operand)
        return found is not None and found[0].space == "param"

    def _variable(self, operand: Operand) -> tuple[Any, Any] | None:
        if not (isinstance(operand, Address) and isinstance(operand.base, Name)):
            return None
        found: tuple[Any, Any] | None = self.program.variable(self.instruction.scope, operand.base.text)
        return found

    def parameter_is_per_lane(self, operand: Operand) -> bool:
        """Whether ``[name]`` of ``ld.param``/``st.param`` lives in the frame, not in the kernel's arguments."""
        found = self._variable(operand)
        if found is None:
            return False
        function = self.program.function
        own = {p.name for p in function.parameters}
        return not (function.is_entry and found[0].name in own)


def _apply(function: Any, inputs: list[int], output: int) -> Step:
    if isinstance(function, np.ufunc):
        return _apply_ufunc(function, inputs, output)

    if isinstance(function, TypedUfunc):
        return _apply_typed(function, inputs, output)
    if isinstance(function, InPlace):
        return _apply_in_place(function, inputs, output)

    def run(x: Context) -> None:
        views = x.views
        value = function(*[views[i] for i in inputs])
        if x.sliced:
            views[output][...] = value
        else:
            x.put(output, value)

    return run


def _apply_in_place(function: InPlace, inputs: list[int], output: int) -> Step:
    into = function.into

    def run(x: Context) -> None:
        views = x.views
        if x.sliced:
            into(views[output], *[views[i] for i in inputs])
        else:
            x.put(output, function(*[views[i] for i in inputs]))

    return run


def _apply_typed(typed: TypedUfunc, inputs: list[int], output: int) -> Step:
    a, b = inputs
    function, dtype = typed.function, typed.dtype

    def run(x: Context) -> None:
        views = x.views
        if x.sliced:
            function(views[a], views[b], out=views[output], dtype=dtype)
        else:
            x.put(output, function(views[a], views[b], dtype=dtype))

    return run


def _apply_ufunc(function: np.ufunc, inputs: list[int], output: int) -> Step:
    if len(inputs) == 2:
        a, b = inputs

        def binary(x: Context) -> None:
            views = x.views
            if x.sliced:
                function(views[a], views[b], out=views[output])
            else:
                x.put(output, function(views[a], views[b]))

        return binary
    (a,) = inputs

    def unary(x: Context) -> None:
        views = x.views
        if x.sliced:
            function(views[a], out=views[output])
        else:
            x.put(output, function(views[a]))

    return unary


def _apply_where(function: Any, inputs: list[int], output: int, predicate: int, negated: bool, number: int) -> Step:
    def run(x: Context) -> None:
        views = x.views
        mask = x.get(predicate)
        if negated:
            mask = ~mask
        count = int(np.count_nonzero(mask))
        x.batch.predicated[number] += count
        if count == mask.size:
            x.put(output, function(*[views[i] for i in inputs]))
        elif count:
            x.put_where(output, function(*[views[i] for i in inputs]), mask)

    return run
