"""Control flow (PTX ISA 9.7.12): branches, calls, returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.instructions.host_calls import HOST_FUNCTIONS
from ptxgym.devices.simulator.program import Program
from ptxgym.devices.simulator.ptx.syntax import Group, Name
from ptxgym.devices.simulator.scheduler import Stack
from ptxgym.devices.simulator.state import Frame
from ptxgym.devices.simulator.table import Step, effect


def handles_predicate(step: Any) -> Step:
    """Mark a step that reads its instruction's predicate itself."""
    step.handles_predicate = True
    return step  # type: ignore[no-any-return]


@effect("bra", isa="9.7.12.3", counter="branch", ends_block=True)
def bra(b: Any) -> Step:
    """Branch; lanes that disagree part."""
    target, after = int(b.label(b.operands[0])), int(b.pc) + 1
    predicate = b.instruction.predicate
    if predicate is None:
        return lambda x: target

    slot, negated, number = b.source(predicate, "pred"), predicate.negated, b.number

    def step(x: Context) -> int:
        mask = x.views[slot]
        total = x.lanes.count
        taken = int(np.count_nonzero(mask))
        if negated:
            taken = total - taken
        x.batch.predicated[number] += taken
        if taken == total:
            return target
        if taken == 0:
            return after
        pool = x.batch.pool
        goes = ~mask if negated else mask
        x.batch.ready(x.stack, target, pool.subset(x.lanes, goes))
        x.batch.ready(x.stack, after, pool.subset(x.lanes, ~goes))
        return -1

    return handles_predicate(step)


@effect("brx.idx", isa="9.7.12.4", counter="branch", ends_block=True)
def brx(b: Any) -> Step:
    """Branch through a table."""
    slot = b.source(b.operands[0], "u32")
    name = b.operands[1].text
    scope = b.instruction.scope
    while scope is not None and name not in scope.targets:
        scope = scope.parent
    if scope is None:
        raise b.unknown("a .branchtargets list is needed")
    labels: list[int] = [b.label(Name(label)) for label in scope.targets[name]]
    where = b.where

    def step(x: Context) -> int:
        index = x.get(slot)
        if int(index.max()) >= len(labels):
            raise x.fault("branch-index", where, f"branch index {int(index.max())} of {len(labels)} targets",
                          int(index.argmax()))  # fmt: skip
        values = np.unique(index)
        if len(values) == 1:
            return labels[int(values[0])]
        for value in values.tolist():
            x.batch.ready(x.stack, labels[value], x.batch.pool.subset(x.lanes, index == value))
        return -1

    return step


@effect("exit", isa="9.7.12.7", counter="branch", ends_block=True)
def exit_(b: Any) -> Step:
    """End the threads."""

    def step(x: Context) -> int:
        x.batch.exit_lanes(x.lanes)
        return -1

    return step


@effect("ret", isa="9.7.12.6", counter="branch", ends_block=True)
def ret(b: Any) -> Step:
    """Return to the caller, or end the threads of a kernel."""

    def step(x: Context) -> int:
        stack: Stack = x.stack
        if stack.parent is None:
            x.batch.exit_lanes(x.lanes)
            return -1
        if stack.returns is not None:
            stack.returns(x)
        x.batch.ready(stack.parent, stack.return_pc, x.lanes)
        return -1

    return step


@effect("trap brkpt", isa="9.7.19.1, 9.7.19.4", counter="branch", ends_block=True)
def trap(b: Any) -> Step:
    """Stop the launch with an error."""
    where = b.where

    def step(x: Context) -> int:
        raise x.fault("trap", where, "the kernel executed trap (a failed assertion or __trap())")

    return step


@effect("call", isa="9.7.12.5", counter="branch", ends_block=True)
def call(b: Any) -> Step:
    """Call a function; arguments and results are copied between the frames' parameters."""
    operands = list(b.operands)
    results = operands.pop(0).items if isinstance(operands[0], Group) else ()
    target: Any = operands.pop(0)
    arguments = operands[0].items if operands and isinstance(operands[0], Group) else ()
    after = b.pc + 1
    sources = [_parameter(b, name) for name in arguments]
    destinations = [_parameter(b, name) for name in results]
    if target.text in HOST_FUNCTIONS and not _is_defined(b, target.text):
        return _host_call(b, target.text, sources, destinations, after)
    if b.program.register(b.instruction.scope, target.text) is None:
        if not _is_defined(b, target.text):
            raise b.unknown(f"the function {target.text} has no body")
        name = target.text
        return lambda x: _enter(x, name, sources, destinations, after)
    pointer, where = b.source(target, "u64"), b.where

    def indirect(x: Context) -> int:
        for value in np.unique(x.get(pointer)).tolist():
            lanes = x.batch.pool.subset(x.lanes, x.get(pointer) == value)
            name = x.frame.program.image.function_name(value)
            if name is None:
                raise x.fault("bad-call", where, f"call through {value:#x}, which is not a function")
            whole = x.lanes
            x.enter(lanes, x.frame)
            pc = _enter(x, name, sources, destinations, after)
            assert pc == -1
            x.enter(whole, x.stack.frame)
        return -1

    return indirect


def _is_defined(b: Any, name: str) -> bool:
    function = b.program.image.functions.get(name)
    return function is not None and bool(function.defined)


def _parameter(b: Any, operand: Any) -> tuple[int, int]:
    """Offset and size of a ``.param`` variable of the caller."""
    from ptxgym.devices.simulator.program import variable_bytes

    found = b.program.variable(b.instruction.scope, operand.text)
    if found is None:
        raise b.unknown("register arguments of call")
    variable, scope = found
    return int(b.program.param_offsets[scope.number, variable.name]), variable_bytes(variable)


MAX_DEPTH = 64


def _enter(
    x: Context, name: str, sources: list[tuple[int, int]], destinations: list[tuple[int, int]], after: int
) -> int:
    batch = x.batch
    stack: Stack = x.stack
    child = stack.children.get((name, after))
    if child is None:
        child = stack.children[name, after] = _new_stack(x, name, destinations, after)
    function = child.frame.program.function
    offsets = [child.frame.program.param_offsets[function.scope.number, p.name] for p in function.parameters]
    for (start, size), offset in zip(sources, offsets, strict=False):
        _copy(x, x.frame, start, child.frame, offset, size)
    batch.ready(child, 0, x.lanes)
    return -1


def _new_stack(x: Context, name: str, destinations: list[tuple[int, int]], after: int) -> Stack:
    stack: Stack = x.stack
    caller = x.frame
    program: Program = caller.program.image.program(name)
    base = caller.local_base + caller.program.local_bytes
    if stack.depth >= MAX_DEPTH or base + program.local_bytes > x.batch.state.local_stride:
        raise x.fault("stack-overflow", program.instructions[0].where, f"call depth {stack.depth + 1} in {name}")
    frame = Frame(program, x.batch.state.lanes, base, program.param_bytes)
    child = Stack(frame, stack, after, stack.depth + 1)
    function = program.function
    results = [program.param_offsets[function.scope.number, r.name] for r in function.results]

    def give_back(y: Context) -> None:
        for (start, size), offset in zip(destinations, results, strict=False):
            _copy(y, frame, offset, caller, start, size)

    child.returns = give_back
    return child


def _copy(x: Context, source: Frame, start: int, target: Frame, offset: int, size: int) -> None:
    lanes = x.lanes.index[:, None]
    span = np.arange(size)
    value = source.parameters.bytes[lanes * source.program.param_bytes + start + span]
    target.parameters.bytes[lanes * target.program.param_bytes + offset + span] = value


def _host_call(
    b: Any, name: str, sources: list[tuple[int, int]], destinations: list[tuple[int, int]], after: int
) -> Step:
    function, where = HOST_FUNCTIONS[name], b.where

    def step(x: Context) -> int:
        stride = x.frame.program.param_bytes
        data = x.frame.parameters.bytes
        for lane in x.each_lane():
            arguments = [
                int.from_bytes(data[lane * stride + s : lane * stride + s + n].tobytes(), "little") for s, n in sources
            ]
            result = function(x, lane, arguments, where)
            for s, n in destinations:
                data[lane * stride + s : lane * stride + s + n] = np.frombuffer(
                    (result & ((1 << (8 * n)) - 1)).to_bytes(n, "little"), np.uint8
                )
        return after

    return step
