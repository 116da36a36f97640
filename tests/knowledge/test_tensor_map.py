"""The host's tensor-map builder, over every rank, type and swizzle, as the simulator reads its maps."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re

import numpy as np
import pytest

from ptxgym.devices.simulator import tensor_map
from ptxgym.toolchain.toolkit import find_toolkit
from tests.corpus.harness import nvcc
from tests.knowledge.harness import _CACHE, CUDA, INCLUDE, _run, key_of

pytestmark = [pytest.mark.nvcc, pytest.mark.skipif(nvcc() is None, reason="needs nvcc")]
SPANS = {16: "none", 32: "32B", 64: "64B", 128: "128B"}
SWIZZLE_CODES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}  # CUtensorMapSwizzle
TYPE_CODES = {"f32": 7, "bf16": 9}  # CUtensorMapDataType
INVALID, NOT_SUPPORTED = 1, 801  # cudaError_t


class Asked(ctypes.Structure):
    """What the driver was asked for."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("type", "rank", "interleave", "swizzle", "promotion", "fill")),
        ("address", ctypes.c_void_p),
        ("sizes", ctypes.c_uint64 * 5),
        ("strides", ctypes.c_uint64 * 4),
        ("box", ctypes.c_uint32 * 5),
        ("steps", ctypes.c_uint32 * 5),
    )


@functools.cache
def library() -> ctypes.CDLL:
    source = CUDA / "tensor_map.cu"
    target = _CACHE / f"{key_of(source.read_text())}.so"
    if not target.exists():
        _CACHE.mkdir(exist_ok=True)
        kit = find_toolkit()
        # The library's own driver entry point comes before the runtime's.
        _run(kit.nvcc, "-shared", "-std=c++17", "-Xcompiler", "-fPIC", f"-I{INCLUDE}", "-gencode",
             "arch=compute_90a,code=sm_90a", "-cudart", "none", f"-L{kit.runtime}", "-l:libcudart.so.13",
             "-Xlinker", "-Bsymbolic", "-Xlinker", "-rpath", "-Xlinker", kit.runtime, "-o", target, source)  # fmt: skip
    return ctypes.CDLL(str(target), mode=os.RTLD_LAZY)


def ask(kind: str, sizes: tuple[int, ...], box: tuple[int, ...], span: int, result: int = 0, missing: int = 0,
        address: int = 0x7F0000000000) -> tuple[int, Asked]:  # fmt: skip
    asked = Asked()
    error = library().contiguous(
        int(kind == "f32"), len(sizes), ctypes.c_void_p(address), (ctypes.c_int64 * len(sizes))(*sizes),
        (ctypes.c_int * len(box))(*box), span, result, missing, ctypes.byref(asked),
    )  # fmt: skip
    return error, asked


SIZES, BOX = (64, 40, 6, 5, 3), (8, 4, 2, 2, 1)


@pytest.mark.parametrize(("kind", "rank", "span"), [*itertools.product(TYPE_CODES, range(1, 6), SPANS)])
def test_a_contiguous_tensor_is_described_as_it_lies(kind: str, rank: int, span: int) -> None:
    size = tensor_map.ELEMENT_BYTES[kind]
    sizes, box = SIZES[:rank], (16 // size, *BOX[1:rank])
    error, asked = ask(kind, sizes, box, span)
    assert error == 0
    tensor = np.empty(sizes[::-1], {"f32": np.float32, "bf16": np.uint16}[kind])
    assert list(asked.strides)[: rank - 1] == list(tensor.strides[::-1][1:])
    assert (list(asked.sizes)[:rank], list(asked.box)[:rank]) == (list(sizes), list(box))
    assert (asked.type, asked.rank, asked.swizzle) == (TYPE_CODES[kind], rank, SWIZZLE_CODES[SPANS[span]])
    fields = tensor_map.TensorMapFields(
        kind=kind, address=asked.address, sizes=tuple(asked.sizes)[:rank], strides=tuple(asked.strides)[: rank - 1],
        box=tuple(asked.box)[:rank], element_strides=tuple(asked.steps)[:rank], swizzle=SPANS[span],
    )  # fmt: skip
    assert tensor_map.validate(fields) is None
    assert tensor_map.decode(tensor_map.encode(fields)) == fields


def test_sizes_and_boxes_may_be_written_in_braces() -> None:
    asked = Asked()
    assert library().with_literals(ctypes.c_void_p(0x7F0000000000), 512, 768, ctypes.byref(asked)) == 0
    assert (list(asked.sizes)[:2], list(asked.box)[:2], asked.strides[0]) == ([512, 768], [64, 128], 1024)


def test_a_refusal_of_the_driver_is_an_error() -> None:
    assert ask("bf16", (64, 64), (64, 64), 128, result=1)[0] == INVALID


def test_a_driver_without_the_encoder_is_an_error() -> None:
    assert ask("bf16", (64, 64), (64, 64), 128, missing=1)[0] == NOT_SUPPORTED


def test_every_host_function_is_called_here() -> None:
    text = (INCLUDE / "ptxgym" / "tensor_map.cuh").read_text()
    defined = set(re.findall(r"^(?:inline )?(?:cudaError_t|PFN_\w+) (\w+)\(", text, re.MULTILINE))
    assert defined == {"tensor_map_encoder", "make_tensor_map_strided", "make_tensor_map"}
    called = (CUDA / "tensor_map.cu").read_text() + text.replace("PFN_", "")
    assert all(called.count(f"{name}(") >= 2 for name in defined)
