"""A finding names the line that its writer wrote, also through the inlined functions of a header."""

from __future__ import annotations

import pytest

from ptxgym.devices.simulator.ptx.parser import parse

PTX = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k() {
.reg .b32 %r<4>;
.loc 1 61 5
mov.u32 %r1, 0;
.loc 1 62 5
.loc 2 104 9, function_name $L__info_string0, inlined_at 1 62 5
add.u32 %r1, %r1, 1;
.loc 3 12 72, function_name $L__info_string1, inlined_at 2 104 9
// begin inline asm
wgmma.fence.sync.aligned;
// end inline asm
.loc 1 65 5
.loc 2 104 9, function_name $L__info_string0, inlined_at 1 65 5
.loc 3 12 72, function_name $L__info_string1, inlined_at 2 104 9
// begin inline asm
wgmma.fence.sync.aligned;
// end inline asm
.loc 1 70 5
.loc 1 8 3, function_name $L__info_string2, inlined_at 1 70 5
mov.u32 %r2, 0;
.loc 1 72 5
.loc 4 300 3, function_name $L__info_string3, inlined_at 1 72 5
mov.u32 %r3, 0;
ret;
}
.file 1 "/scratch/kernel.cu"
.file 2 "/pack/wgmma.cuh"
.file 3 "/pack/fence.cuh"
.file 4 "/toolkit/cuda_bf16.hpp"
"""


@pytest.fixture(scope="module")
def places() -> list[str]:
    return [str(instruction.where) for instruction in parse(PTX).functions["k"].body]


def test_a_plain_line_is_itself(places: list[str]) -> None:
    assert places[0] == "kernel.cu:61"


def test_a_headers_function_names_its_call_and_its_own_line(places: list[str]) -> None:
    assert places[1] == "kernel.cu:62 (in wgmma.cuh:104)"


def test_assembly_in_nested_wrappers_names_the_outermost_call_each_time(places: list[str]) -> None:
    assert places[2:4] == ["kernel.cu:62 (in wgmma.cuh:104)", "kernel.cu:65 (in wgmma.cuh:104)"]


def test_a_function_of_the_same_file_keeps_its_own_line(places: list[str]) -> None:
    assert places[4] == "kernel.cu:8"


def test_the_toolkits_headers_are_left_out(places: list[str]) -> None:
    assert places[5] == "kernel.cu:72"
