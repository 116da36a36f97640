"""Where allocations lie, and that they can be told apart."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from ptxgym.devices.simulator.memory import GlobalMemory
from ptxgym.devices.simulator.runtime.arena import BASE, Allocator, Arena
from ptxgym.devices.simulator.runtime.device_memory import DeviceMemory
from ptxgym.devices.simulator.runtime.protocol import MemoryKind, RequestError


def allocate(allocator: Allocator, size: int):
    return allocator.allocate(size, MemoryKind.DEVICE, "")


def test_allocations_start_on_pages_and_never_touch():
    draw = random.Random(3)
    allocator = Allocator(BASE, 64 << 20)
    live = []
    for _ in range(500):
        if live and draw.random() < 0.4:
            allocator.release(live.pop(draw.randrange(len(live))))
        elif block := allocate(allocator, draw.choice((1, 100, 4096, 300_000))):
            live.append(block)
        ordered = sorted(live, key=lambda block: block.address)
        assert all(block.address % 4096 == 0 for block in ordered)
        assert all(a.end + 65536 <= b.address for a, b in itertools.pairwise(ordered))
        assert all(block.address >= BASE and block.end <= BASE + (64 << 20) for block in ordered)


def test_freed_addresses_are_reused_late_but_are():
    allocator = Allocator(BASE, 4 << 20)
    first = allocate(allocator, 1 << 20)
    allocator.release(first)
    second = allocate(allocator, 1 << 20)
    assert second.address != first.address
    seen = set()
    for _ in range(10):
        block = allocate(allocator, 1 << 20)
        seen.add(block.address)
        allocator.release(block)
    assert first.address in seen


def test_a_full_arena_says_none_and_recovers():
    allocator = Allocator(BASE, 4 << 20)
    blocks = []
    while block := allocate(allocator, 500_000):
        blocks.append(block)
    assert len(blocks) >= 5
    allocator.release(blocks[2])
    assert allocate(allocator, 500_000).address == blocks[2].address


def test_an_address_belongs_to_the_allocation_that_holds_it():
    allocator = Allocator(BASE, 4 << 20)
    block = allocate(allocator, 1000)
    assert allocator.around(block.address + 999) is block
    assert allocator.around(block.address + 1000) is None
    assert allocator.around(block.address - 1) is None
    assert allocator.at(block.address + 1) is None


@pytest.fixture
def memory():
    arena = Arena()
    yield DeviceMemory(arena, GlobalMemory())
    arena.close()


def test_what_the_host_copies_counts_as_written_and_what_it_does_not_does_not(memory: DeviceMemory):
    block = memory.allocate(100, MemoryKind.DEVICE)
    flags = memory._executor.find(block.address).initialised
    assert not flags.any()
    memory.upload(block.address + 10, 20, 5, 2)
    assert np.flatnonzero(flags).tolist() == [*range(10, 15), *range(30, 35)]
    other = memory.allocate(100, MemoryKind.DEVICE)
    memory.copy(other.address, 0, block.address, 0, 50, 1)
    assert np.array_equal(memory._executor.find(other.address).initialised[:50], flags[:50])


def test_freed_memory_is_given_back_and_forgotten(memory: DeviceMemory):
    block = memory.allocate(1 << 20, MemoryKind.DEVICE)
    memory.arena.view(block.address, 1 << 20)[:] = 7
    memory.free(block.address, MemoryKind.DEVICE)
    assert not memory.arena.view(block.address, 1 << 20).any()
    with pytest.raises(RequestError):
        memory.check(block.address, 0, 1, 1)


def test_pinned_and_managed_memory_lies_where_the_candidate_may_map(memory: DeviceMemory):
    arena = memory.arena
    shown = range(arena.shown_start, arena.start + arena.size)
    for kind in MemoryKind:
        address = memory.allocate(10, kind).address
        assert (address in shown) == (kind in (MemoryKind.PINNED, MemoryKind.MANAGED))


def test_pinned_memory_is_freed_by_its_own_call(memory: DeviceMemory):
    pinned = memory.allocate(10, MemoryKind.PINNED).address
    managed = memory.allocate(10, MemoryKind.MANAGED).address
    for address, kind in ((pinned, MemoryKind.DEVICE), (managed, MemoryKind.PINNED)):
        with pytest.raises(RequestError):
            memory.free(address, kind)
    memory.free(pinned, MemoryKind.PINNED)
    memory.free(managed, MemoryKind.DEVICE)
