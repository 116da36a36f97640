"""Kernels as host code sees them: attributes, what a launch may ask for, and occupancy.

Every rule and code was compared with driver 580.159 on an H200 (``behaviour_h200.txt``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from ptxgym.devices.simulator.runtime.gpu import Gpu
from ptxgym.devices.simulator.runtime.protocol import Code, RequestError

if TYPE_CHECKING:
    from ptxgym.devices.simulator.module import Kernel, Module

Dim3 = tuple[int, int, int]

_SHARED_PER_BLOCK = 227 << 10
_SHARED_PER_PROCESSOR = 228 << 10
_RESERVED = 1 << 10
_REGISTERS = 64 << 10
_BLOCKS_PER_PROCESSOR = 32
_WARPS_PER_PROCESSOR = 64
_CLUSTERED_BLOCKS_PER_PROCESSOR = 8
"""As the driver counts when it is asked for clusters."""

_MOST_GRID = ((1 << 31) - 1, 65535, 65535)
_MOST_BLOCK = (1024, 1024, 64)

# CUfunction_attribute
_MAX_THREADS, _SHARED, _CONST, _LOCAL, _NUM_REGS, _PTX, _BINARY, _CACHE = range(8)
_MAX_DYNAMIC, _CARVEOUT, _MUST_CLUSTER, _WIDTH, _HEIGHT, _DEPTH, _NON_PORTABLE, _POLICY = range(8, 16)
_SETTABLE = {
    _CARVEOUT: range(-1, 101),
    _WIDTH: range(1 << 31),
    _HEIGHT: range(1 << 31),
    _DEPTH: range(1 << 31),
    _NON_PORTABLE: range(2),
    _POLICY: range(3),
}


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas says of a kernel."""

    registers: int = 0
    """Per thread, 0 when unknown: then no launch is refused for them."""
    local_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What host code asks for."""

    grid: Dim3
    block: Dim3
    cluster: Dim3
    """Zeros where the launch names none."""
    dynamic_shared: int
    cooperative: bool


@dataclass(slots=True)
class DeviceFunction:
    """A kernel that the candidate has a handle of."""

    module: Module
    kernel: Kernel
    resources: Resources
    gpu: Gpu
    loaded: bool = False
    """Whether it came from PTX that host code loaded, and not from the compiled source."""
    settings: dict[int, int] = field(default_factory=dict)
    """Attributes that the candidate has set."""

    @property
    def label(self) -> str:
        """The name for records, which no loaded kernel can share with one of the source."""
        return f"{self.kernel.name} (loaded at run time)" if self.loaded else self.kernel.name

    # -- attributes

    def attribute(self, attribute: int) -> int:
        """The value of a ``CUfunction_attribute``.

        Raises:
            RequestError: There is no such attribute.
        """
        if attribute in self.settings:
            return self.settings[attribute]
        capability = 10 * self.gpu.attributes[75] + self.gpu.attributes[76]
        cluster = self.kernel.cluster or (0, 0, 0)
        values = {
            _MAX_THREADS: self.max_threads,
            _SHARED: self.kernel.static_shared,
            _CONST: sum(v.size for v in self.module.globals.values() if v.space == "const"),
            _LOCAL: self.resources.local_bytes,
            _NUM_REGS: self.resources.registers,
            _PTX: capability,
            _BINARY: capability,
            _CACHE: 0,
            _MAX_DYNAMIC: (48 << 10) - self.kernel.static_shared,
            _CARVEOUT: -1,
            _MUST_CLUSTER: int(self.kernel.cluster is not None),
            _WIDTH: cluster[0],
            _HEIGHT: cluster[1],
            _DEPTH: cluster[2],
            _NON_PORTABLE: 0,
            _POLICY: 0,
        }
        if attribute not in values:
            raise RequestError(Code.INVALID_VALUE)
        return values[attribute]

    def set_attribute(self, attribute: int, value: int) -> None:
        """Set a ``CUfunction_attribute``.

        Raises:
            RequestError: It cannot be set, or not to this.
        """
        allowed = _SETTABLE.get(attribute, range(0))
        if attribute == _MAX_DYNAMIC:
            allowed = range(_SHARED_PER_BLOCK - self.kernel.static_shared + 1)
        if value not in allowed:
            raise RequestError(Code.INVALID_VALUE)
        self.settings[attribute] = value

    @property
    def bound(self) -> int:
        """Threads that ``__launch_bounds__`` allows."""
        return min(prod(self.kernel.maxntid) if self.kernel.maxntid else 1024, 1024)

    @property
    def max_threads(self) -> int:
        """Threads that a block may have, by bounds and registers."""
        return min(self.bound, 32 * self._warps_by_registers())

    def _warps_by_registers(self) -> int:
        """Warps whose registers one multiprocessor holds: four parts, each allocates 256 at a time to a warp."""
        if not self.resources.registers:
            return _WARPS_PER_PROCESSOR
        per_warp = -(-self.resources.registers * 32 // 256) * 256
        return 4 * (_REGISTERS // 4 // per_warp)

    # -- launches

    def check(self, launch: LaunchRequest) -> Dim3:
        """The cluster that a launch has; (1, 1, 1) without.

        Raises:
            RequestError: The GPU refuses the launch.
        """
        threads = prod(launch.block)
        grid_fits = all(1 <= n <= most for n, most in zip(launch.grid, _MOST_GRID, strict=True))
        block_fits = all(1 <= n <= most for n, most in zip(launch.block, _MOST_BLOCK, strict=True))
        if not grid_fits or not block_fits or threads > 1024:
            raise self._invalid(f"a grid of {launch.grid} blocks of {launch.block} threads is outside the GPU's limits")
        if threads > self.bound:
            raise self._invalid(f"{threads} threads are more than its __launch_bounds__({self.bound})")
        allowed = self.attribute(_MAX_DYNAMIC)
        if launch.dynamic_shared > allowed:
            raise self._invalid(
                f"{launch.dynamic_shared} bytes of dynamic shared memory are more than the {allowed} allowed; "
                "cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize) raises that to "
                f"{_SHARED_PER_BLOCK - self.kernel.static_shared}"
            )
        if -(-threads // 32) > self._warps_by_registers():
            registers = self.resources.registers
            raise self._invalid(f"{threads} threads of {registers} registers are more than a multiprocessor has",
                                Code.LAUNCH_OUT_OF_RESOURCES)  # fmt: skip
        cluster = self._cluster(launch)
        if launch.cooperative:
            fits = self.blocks_per_processor(threads, launch.dynamic_shared) * self.gpu.processors
            if prod(launch.grid) > fits:
                raise self._invalid(f"only {fits} blocks of a cooperative launch are resident at once",
                                    Code.COOPERATIVE_LAUNCH_TOO_LARGE)  # fmt: skip
        return cluster

    def _invalid(self, why: str, code: Code = Code.INVALID_VALUE) -> RequestError:
        return RequestError(code, f"the launch of {self.kernel.name} was refused: {why}")

    def _cluster(self, launch: LaunchRequest) -> Dim3:
        required = self.kernel.cluster or self._required_cluster()
        asked = launch.cluster if any(launch.cluster) else None
        if required and asked and required != asked:
            raise self._invalid(f"it was compiled for clusters of {required}, not {asked}", Code.INVALID_CLUSTER_SIZE)
        cluster = asked or required or (1, 1, 1)
        most = 16 if self.attribute(_NON_PORTABLE) else 8
        if not all(cluster) or prod(cluster) > most or any(g % c for g, c in zip(launch.grid, cluster, strict=True)):
            raise self._invalid(
                f"a cluster of {cluster} must divide the grid {launch.grid} and have {most} blocks at most",
                Code.INVALID_CLUSTER_SIZE,
            )
        return cluster

    def _required_cluster(self) -> Dim3 | None:
        """The cluster that ``cudaFuncSetAttribute`` fixed."""
        if not self.settings.get(_WIDTH):
            return None
        return (self.settings[_WIDTH], self.settings.get(_HEIGHT) or 1, self.settings.get(_DEPTH) or 1)

    # -- occupancy

    def blocks_per_processor(self, threads: int, dynamic_shared: int) -> int:
        """Blocks that are resident on one multiprocessor.

        Raises:
            RequestError: There are no threads.
        """
        if threads <= 0:
            raise RequestError(Code.INVALID_VALUE)
        if threads > 1024 or dynamic_shared > self.attribute(_MAX_DYNAMIC):
            return 0
        warps = -(-threads // 32)
        shared = -(-(self.kernel.static_shared + dynamic_shared + _RESERVED) // 128) * 128
        return min(
            _BLOCKS_PER_PROCESSOR,
            _WARPS_PER_PROCESSOR // warps,
            self._warps_by_registers() // warps,
            _SHARED_PER_PROCESSOR // shared,
        )

    def clusters(self, threads: int, cluster: Dim3, dynamic_shared: int) -> int:
        """Clusters that are resident on the whole GPU.

        Raises:
            RequestError: There cannot be such a cluster.
        """
        cluster = cluster if any(cluster) else self.kernel.cluster or (1, 1, 1)
        size = prod(cluster)
        if not 1 <= size <= (16 if self.attribute(_NON_PORTABLE) else 8):
            raise RequestError(Code.INVALID_CLUSTER_SIZE)
        blocks = min(self.blocks_per_processor(threads, dynamic_shared), _CLUSTERED_BLOCKS_PER_PROCESSOR)
        processors = self.gpu.processors if size <= 2 else self.gpu.cluster_processors
        return processors * blocks // size

    def available_shared(self, blocks: int, threads: int) -> int:
        """Dynamic shared memory that each of so many resident blocks may have."""
        if blocks <= 0 or threads <= 0:
            raise RequestError(Code.INVALID_VALUE)
        each = _SHARED_PER_PROCESSOR // blocks // 128 * 128 - _RESERVED - self.kernel.static_shared
        return max(0, min(each, self.attribute(_MAX_DYNAMIC)))
