"""A batch of CTAs that execute together: the run loop.

The loop fetches a block, calls its steps, counts, and asks the scheduler; it names no instruction.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ptxgym.devices.simulator.asynchronous import Operation
from ptxgym.devices.simulator.barriers import CtaBarriers
from ptxgym.devices.simulator.checks.observer import watching
from ptxgym.devices.simulator.context import Context
from ptxgym.devices.simulator.findings import FindingLog, SourceLine
from ptxgym.devices.simulator.lanes import LanePool, LaneSet
from ptxgym.devices.simulator.memory import PARAM_WINDOW, WINDOW_SIZE, ByteBuffer, GlobalMemory
from ptxgym.devices.simulator.scheduler import Scheduler, Stack, Waiting
from ptxgym.devices.simulator.state import RESERVED_SHARED, BatchState, Frame

if TYPE_CHECKING:
    from ptxgym.devices.simulator.launch import Launch
    from ptxgym.devices.simulator.program import Block, Decoded, Program

SPIN_LIMIT = 256
"""Backward branches that a strand may take in a row while others are ready."""


class Incomplete(Exception):  # noqa: N818 -- a signal to the loop, not an error
    """A warp-wide instruction lacks lanes; ``complete`` marks those that can go on."""

    def __init__(self, pc: int, complete: npt.NDArray[np.bool_]) -> None:
        self.pc = pc
        self.complete = complete
        super().__init__()


class Batch:
    """Some CTAs of a launch, from first instruction to exit."""

    def __init__(self, launch: Launch, ctas: list[int], shared_bytes: int) -> None:
        self.launch = launch
        self.memory: GlobalMemory = launch.memory
        self.log: FindingLog = launch.log
        self.symbols: dict[str, int] = launch.symbols
        self.parameters: ByteBuffer = launch.parameters
        self.dynamic_shared: int = launch.config.dynamic_shared
        self.predicated: dict[int, int] = launch.predicated
        self.state = BatchState(launch.geometry, ctas, shared_bytes, launch.limits.local_bytes_per_thread)
        self.pool = LanePool()
        self.scheduler = Scheduler(self.pool)
        self.barriers = CtaBarriers(self)
        self.exited = ~self.state.alive
        self.pending: deque[Operation] = deque()
        """Asynchronous operations that have not happened yet, oldest first."""
        self.extensions: dict[str, Any] = {}
        """State of instruction families (mbarriers, wgmma groups, tensor memory), made on first use."""
        self.observers = launch.observers(self)
        self._watchers: dict[tuple[str, ...], list[Any]] = {}
        self.access_observers = self.watchers("on_access")
        self.operand_observers = self.watchers("on_operand")
        self.spinning = False
        """Only strands that loop were left when the loop last looked."""
        self.restless = 0
        """Raised by polling instructions; makes the loop set the strand aside sooner."""
        self.inflight: frozenset[tuple[str, int]] = frozenset()
        """Registers that an unfinished asynchronous instruction owns, in some warpgroup."""
        self.register_watchers: list[Callable[[Context, Decoded], None]] = []
        """Called when an instruction names one of them."""
        self._context = Context(self)
        frame = Frame(launch.image.entry, self.state.lanes, 0, launch.image.entry.param_bytes)
        self.root = Stack(frame, None, -1, 0)
        self.local_top = launch.image.entry.local_bytes
        self.scheduler.put(self.root, 0, self.pool.of(self.state.live().index))

    # -- services for steps --------------------------------------------------------------------------

    def extension(self, name: str, make: Callable[[Batch], Any]) -> Any:
        """State of an instruction family."""
        found = self.extensions.get(name)
        if found is None:
            found = self.extensions[name] = make(self)
        return found

    def watchers(self, *events: str) -> list[Any]:
        """The checks that do something at any of these events."""
        found = self._watchers.get(events)
        if found is None:
            found = self._watchers[events] = watching(self.observers, *events)
        return found

    def ready(self, stack: Stack, pc: int, lanes: LaneSet) -> None:
        """Make lanes ready."""
        self.scheduler.put(stack, pc, lanes)

    def later(self, run: Callable[[], None]) -> Operation:
        """Issue an asynchronous operation."""
        operation = Operation(run)
        self.pending.append(operation)
        return operation

    def park(self, x: Context, pc: int, lanes: LaneSet, where: SourceLine, reason: Any, barrier: Any = None) -> Waiting:
        """Let lanes of the executing strand wait; they go on at ``pc``."""
        return self.scheduler.park(Waiting(x.stack, pc, lanes, where, reason, barrier))

    def clock(self) -> int:
        """Executed instructions so far, as a clock."""
        return self.launch.executed_total

    def shared_symbol(self, offset: int) -> npt.NDArray[Any]:
        """Address of a shared variable: the CTA's rank stands in bits 24 and up."""
        base = np.uint32(RESERVED_SHARED + offset)
        if self.state.geometry.cluster_size == 1:
            return np.array(base, np.uint32)
        return (self.state.rank_of.astype(np.uint32) << np.uint32(24)) + base

    def shared_name(self, offset: int) -> str:
        """A flat shared offset in the kernel's words: variable, index and CTA."""
        inside = offset % self.state.shared_stride - RESERVED_SHARED
        cta = self.state.ctas[offset // self.state.shared_stride]
        name = self.launch.image.shared_variable(inside)
        return name if self.state.count == 1 else f"{name} of block {cta}"

    def read_bytes(self, address: int, size: int) -> bytes:
        """Bytes at a generic address that all threads share: parameters, constant or global memory.

        Raises:
            BadAddress: There is nothing.
        """
        if PARAM_WINDOW <= address < PARAM_WINDOW + WINDOW_SIZE:
            start = address - PARAM_WINDOW
            return self.parameters.bytes[start : start + size].tobytes()
        return self.memory.span(address, size).tobytes()

    def exit_lanes(self, lanes: LaneSet) -> None:
        """Lanes end."""
        self.exited[lanes.index] = True
        self.launch.note_progress()
        self.barriers.on_exit(lanes)
        for observer in self.watchers("on_exit"):
            observer.on_exit(self, lanes)

    # -- the loop ------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Execute until all lanes ended (True) or nothing can move without another batch (False)."""
        while True:
            strand = self.scheduler.pop()
            if strand is None:
                if self._progress():
                    continue
                return bool(self.exited.all())
            self._run_strand(*strand)

    def _progress(self) -> bool:
        """Nothing is ready: let something asynchronous happen, or a spinning strand go on."""
        while self.pending:
            operation = self.pending.popleft()
            if not operation.done:
                operation.finish()
                self.scheduler.resume_deferred()
                return True
        if self.scheduler.anything_deferred:
            if self.spinning and self.launch.others(self):
                self.spinning = False
                return False
            self.spinning = True
            self.launch.note_spin(SPIN_LIMIT)
            self.scheduler.resume_deferred()
            return True
        return self._retry_partial()

    def _retry_partial(self) -> bool:
        """Lanes that warp-wide instructions wait for may have ended meanwhile."""
        if not self.scheduler.partial:
            return False
        for waiting in list(self.scheduler.partial.values()):
            self.scheduler.unpark(waiting)
            self.scheduler.put(waiting.stack, waiting.pc, waiting.lanes)
        again = {key: waiting.lanes.count for key, waiting in self.scheduler.partial.items()}
        self.scheduler.partial.clear()
        while (strand := self.scheduler.pop()) is not None:
            self._run_strand(*strand)
        after = {key: waiting.lanes.count for key, waiting in self.scheduler.partial.items()}
        return after != again or bool(self.pending)

    def _run_strand(self, stack: Stack, pc: int, lanes: LaneSet) -> None:
        x = self._context
        x.stack = stack
        x.enter(lanes, stack.frame)
        program: Program = stack.frame.program
        scheduler = self.scheduler
        launch = self.launch
        blocks = launch.block_counts[program.name]
        spins = 0
        while True:
            block = program.block(pc)
            if not self._run_block(x, block, stack):
                return
            launch.spend(self, block, lanes)
            blocks[block.start] += lanes.count
            if block.control is None:
                after = block.next
            else:
                after = block.control(x)
                if after < 0:
                    return
            if after <= pc:
                spins += 1 + self.restless
                self.restless = 0
                if spins > SPIN_LIMIT:
                    if scheduler.anything_ready or self.pending or launch.others(self):
                        scheduler.defer(stack, after, lanes)
                        return
                    launch.note_spin(spins)
                    spins = 0
            pc = after
            if scheduler.precedes(stack, pc):
                scheduler.put(stack, pc, lanes)
                return

    def _run_block(self, x: Context, block: Block, stack: Stack) -> bool:
        try:
            for instruction in block.straight:
                if self.inflight and not self.inflight.isdisjoint(instruction.registers):
                    self._touch(x, instruction)
                instruction.step(x)
        except Incomplete as signal:
            self._split_incomplete(x, block, stack, signal)
            return False
        return True

    def _touch(self, x: Context, instruction: Decoded) -> None:
        for watcher in self.register_watchers:
            watcher(x, instruction)

    def _split_incomplete(self, x: Context, block: Block, stack: Stack, signal: Incomplete) -> None:
        """Lanes whose warps are complete go on at the instruction; the others wait there."""
        at = signal.pc
        lanes = x.lanes
        done = at - block.start
        partial_counts = self.launch.partial_counts
        for instruction in block.instructions[:done]:
            if not instruction.predicated:
                partial_counts[instruction.number] += lanes.count
        key = (id(stack), at)
        parked = self.scheduler.partial.pop(key, None)
        rest = self.pool.subset(lanes, ~signal.complete)
        if signal.complete.any():
            self.scheduler.put(stack, at, self.pool.subset(lanes, signal.complete))
        if parked is not None:
            self.scheduler.unpark(parked)
            merged = self.pool.union([parked.lanes, rest])
            if merged.count != rest.count:
                self.scheduler.put(stack, at, merged)
                return
        where = block.instructions[done].where
        opcode = block.instructions[done].opcode
        waiting = Waiting(stack, at, rest, where, lambda: f"{opcode} needs lanes of its warp that did not come")
        self.scheduler.partial[key] = self.scheduler.park(waiting)


def new_counts() -> dict[str, dict[int, int]]:
    """Executions by function and block start."""
    return defaultdict(lambda: defaultdict(int))
