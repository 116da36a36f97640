"""The simulator's CUDA answers as an H200's did, call by call, for right and for wrong calls."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable

import pytest

from .conftest import HERE, Simulated

pytestmark = pytest.mark.nvcc

PLAIN = [
    *("devices", "memory", "bad_addresses", "symbols", "streams", "launches", "functions", "errors", "entry_points"),
    *("driver_device", "driver_memory", "driver_modules", "fault0", "fault1", "fault2"),
]

# What is different on purpose, and why. A line that matches is left out on both sides.
DIFFERENT = {
    "cudaHostRegister|cudaHostUnregister|pointer registered": "pageable memory cannot move into the arena: refused",
    r"parameter [234] =": "the driver places a 128-byte aligned parameter by its constant bank, which starts at 528",
    r"error (227|917|918|919) =": "codes that are newer than the driver that was asked",
}

# CUdevice_attribute values in which the simulated H100 is no H200, or has less than one.
LESS = {
    *(34, 36, 37, 38, 108, 139, 140),  # the card itself: PCI numbers, memory clock and width, L2
    *(91, 96, 99, 102, 103, 107, 110, 112, 113, 114, 116, 117, 118, 119, 121, 122, 123, 124, 125, 128, 134),
    *(141, 142, 144, 145),  # memory and interoperation that this runtime does not have
}


def recorded() -> dict[str, list[str]]:
    """The H200's answers by group."""
    text = (HERE / "behaviour_h200.txt").read_text()
    text += gzip.decompress((HERE / "tensor_maps_h200.txt.gz").read_bytes()).decode()
    groups: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            current = groups.setdefault(line[1:-1], [])
        else:
            current.append(line)
    return groups


RECORDED = recorded()


def comparable(lines: list[str]) -> list[str]:
    """Without what differs on purpose, or from one compilation to the next."""
    kept = [line for line in lines if not any(re.match(pattern, line) for pattern in DIFFERENT)]
    return [re.sub(r"_GLOBAL__N__[0-9a-f]+_", "_GLOBAL__N_", re.sub(r"_[0-9a-f]{8}(?=5)", "", line)) for line in kept]


@pytest.mark.parametrize("group", PLAIN)
def test_calls_answer_as_on_an_h200(group: str, simulated: Simulated):
    assert comparable(simulated.observe(group)) == comparable(RECORDED[group])
    evidence = simulated.evidence()
    assert evidence["problems"] == evidence["protocol"] == []


def test_every_tiled_tensor_map_is_judged_as_by_the_driver(simulated: Simulated):
    assert simulated.observe("tensor_maps_tiled") == RECORDED["tensor_maps_tiled"]


def test_every_im2col_tensor_map_is_judged_as_by_the_driver_and_a_good_one_refused_by_name(simulated: Simulated):
    ours = [line.replace("= 801", "= 0") for line in simulated.observe("tensor_maps_im2col")]
    assert ours == RECORDED["tensor_maps_im2col"]
    assert "cuTensorMapEncodeIm2col" in simulated.evidence()["refused"]


def test_device_attributes_are_an_h200s_but_for_the_known(simulated: Simulated):
    def attributes(lines: list[str]) -> dict[int, str]:
        found = (re.match(r"attribute (\d+) = (.*)", line) for line in lines)
        return {int(match[1]): match[2] for match in found if match}

    ours, real = attributes(simulated.observe("properties")), attributes(RECORDED["properties"])
    assert {key for key in real if ours.get(key) != real[key]} <= LESS


def test_properties_are_the_attributes(simulated: Simulated):
    """Compared byte by byte where the two devices agree; where a byte differs, its field is known to."""
    ours, real = (
        bytes.fromhex(next(line for line in lines if line.startswith("properties")).split(" = ")[1])
        for lines in (simulated.observe("properties"), RECORDED["properties"])
    )
    assert len(ours) == len(real)
    shared_per_block = 256 + 16 + 8 + 8 + 8  # name, uuid, luid and its mask, total memory; driver_types.h
    up_to_texture_limits = slice(shared_per_block, shared_per_block + 96)
    assert ours[up_to_texture_limits] == real[up_to_texture_limits]


def test_a_blackwell_gpu_says_so(behaviour, simulate: Callable[..., Simulated]):
    lines = simulate(behaviour, "100a").observe("properties")
    assert "attribute 75 = 10" in lines
    assert "attribute 16 = 148" in lines
