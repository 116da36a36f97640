"""Tensor maps: encoding, the driver's rules, and tiles against NumPy's own slicing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgym.devices.simulator.memory import GlobalMemory
from ptxgym.devices.simulator.runtime.protocol import Request, RequestError
from ptxgym.devices.simulator.runtime.tensor_maps import encode_tiled
from ptxgym.devices.simulator.tensor_map import (
    KINDS,
    NotATensorMap,
    TensorMapFields,
    decode,
    encode,
    validate,
)
from ptxgym.devices.simulator.tiles import Tile, load_swizzled, store_swizzled

GOOD = TensorMapFields("bf16", 0x7F0000000000, (512, 256), (1024,), (64, 128), (1, 1), swizzle="128B")


def changed(**fields: object) -> TensorMapFields:
    values = {name: getattr(GOOD, name) for name in GOOD.__dataclass_fields__}
    return TensorMapFields(**{**values, **fields})  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_map_survives_encoding(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 5))
    fields = TensorMapFields(
        kind=data.draw(st.sampled_from(KINDS)),
        address=data.draw(st.integers(1, (1 << 43) - 1)) * 16,
        sizes=tuple(data.draw(st.integers(1, 1 << 32)) for _ in range(rank)),
        strides=tuple(data.draw(st.integers(1, (1 << 36) - 1)) * 16 for _ in range(rank - 1)),
        box=tuple(data.draw(st.integers(1, 256)) for _ in range(rank)),
        element_strides=tuple(data.draw(st.integers(1, 8)) for _ in range(rank)),
        swizzle=data.draw(st.sampled_from(["none", "32B", "64B", "128B"])),
        fill=data.draw(st.sampled_from(["none", "nan"])),
    )
    data_bytes = encode(fields)
    assert len(data_bytes) == 128
    assert decode(data_bytes) == fields


def test_other_bytes_are_no_map() -> None:
    with pytest.raises(NotATensorMap):
        decode(bytes(128))


def test_a_good_map_is_valid() -> None:
    assert validate(GOOD) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"address": 0x7F0000000008}, "multiple of 16"),
        ({"address": 0}, "globalAddress"),
        ({"strides": (1032,)}, "globalStrides"),
        ({"strides": (1 << 40,)}, "globalStrides"),
        ({"box": (64, 257)}, "boxDim"),
        ({"box": (0, 64)}, "boxDim"),
        ({"box": (128, 64)}, "more than the 128 bytes of swizzle"),
        ({"box": (12, 64)}, "not a multiple of 16"),
        ({"box": (64, 64), "swizzle": "64B"}, "more than the 64 bytes"),
        ({"element_strides": (1, 9)}, "elementStrides"),
        ({"sizes": (0, 4)}, "globalDim"),
        ({"sizes": (512,) * 6, "strides": (1024,) * 5, "box": (8,) * 6, "element_strides": (1,) * 6}, "rank 6"),
        ({"strides": ()}, "one fewer"),
        ({"kind": "u16", "fill": "nan"}, "NaN fill"),
        ({"interleave": "16B"}, "rank of at least 3"),
        ({"swizzle": "256B"}, "does not exist"),
        ({"kind": "b6x16_p32", "box": (128, 8), "swizzle": "64B"}, "more than the 64 bytes"),
    ],
)
def test_the_drivers_rules_are_checked(fields: dict[str, object], words: str) -> None:
    problem = validate(changed(**fields))
    assert problem is not None
    assert words in problem


_PACKED_WORDS = (2, 1 << 20, 256, 16, 0, 0, 0, 192, 0, 0, 0, 128, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 3, 0, 0)
"""Arguments of ``cuTensorMapEncodeTiled`` after the type: a box of 128 by 8, the 128-byte swizzle."""


@pytest.mark.parametrize(("code", "kind"), [(14, "b4x16_p64"), (15, "b6x16_p32")])
def test_the_runtime_encodes_packed_elements_on_blackwell(code: int, kind: str) -> None:
    request = Request(0, (code, *_PACKED_WORDS), b"")
    fields = decode(encode_tiled(request, blackwell=True))
    assert (fields.kind, fields.sizes, fields.strides, fields.box) == (kind, (256, 16), (192,), (128, 8))
    assert fields.tile_bytes == 1024
    with pytest.raises(RequestError, match="INVALID_VALUE"):
        encode_tiled(request, blackwell=False)


@pytest.mark.parametrize(("at", "value"), [(2, 200), (11, 64), (22, 5), (21, 1), (7, 200), (1, 16)])
def test_the_runtime_refuses_what_packed_elements_cannot_be(at: int, value: int) -> None:
    words = list(_PACKED_WORDS)
    words[at] = value
    with pytest.raises(RequestError, match="INVALID_VALUE"):
        encode_tiled(Request(0, (15, *words), b""), blackwell=True)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_tile_equals_a_padded_slice(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 5))
    sizes = (*(data.draw(st.integers(1, 9)) for _ in range(rank - 1)), data.draw(st.integers(1, 4)) * 8)
    box = (*(data.draw(st.integers(1, 5)) for _ in range(rank - 1)), data.draw(st.integers(1, 3)) * 8)
    at = tuple(data.draw(st.integers(-7, 12)) for _ in range(rank))
    tensor = np.arange(1, 1 + int(np.prod(sizes)), dtype=np.uint16).reshape(sizes)
    strides = tuple(int(s) for s in tensor.strides[:-1])
    memory = GlobalMemory()
    memory.add(0x10000, tensor.nbytes, tensor.reshape(-1).view(np.uint8), "t")
    fields = TensorMapFields("u16", 0x10000, sizes[::-1], strides[::-1], box[::-1], (1,) * rank)
    got = Tile(memory, fields, at[::-1]).read(0)
    padded = np.pad(tensor, [(20, 20)] * rank)
    expected = padded[tuple(slice(20 + c, 20 + c + n) for c, n in zip(at, box, strict=True))]
    # Far outside, the padding itself ends.
    assert got.shape == box
    assert (got[tuple(slice(0, n) for n in expected.shape)] == expected).all()


def test_element_strides_skip() -> None:
    tensor = np.arange(64, dtype=np.uint32).reshape(4, 16)
    memory = GlobalMemory()
    memory.add(0x10000, 256, tensor.reshape(-1).view(np.uint8), "t")
    fields = TensorMapFields("u32", 0x10000, (16, 4), (64,), (8, 4), (2, 3))
    assert (Tile(memory, fields, (1, 0)).read(0) == tensor[0:4:3, 1:9:2]).all()


@pytest.mark.parametrize(("swizzle", "span"), [("none", 16), ("32B", 32), ("64B", 64), ("128B", 128)])
@pytest.mark.parametrize("start", [0, 1024, 4096 + 256])
def test_a_swizzle_permutes_chunks_within_its_span(swizzle: str, span: int, start: int) -> None:
    tile = np.arange(2048, dtype=np.uint8)
    shared = np.zeros(16384, np.uint8)
    store_swizzled(shared, start, tile, swizzle)
    rows = {"none": 1, "32B": 2, "64B": 4, "128B": 8}[swizzle]
    for chunk in range(128):
        address = start + 16 * chunk
        # The 16-byte chunk index within the span is XORed with the number of the 128-byte line.
        moved = address ^ (address // 128 % rows) * 16 if swizzle != "none" else address
        assert (shared[moved : moved + 16] == tile[16 * chunk : 16 * chunk + 16]).all()
        assert moved // max(span, 16) == address // max(span, 16)
    assert (load_swizzled(shared, start, 2048, swizzle) == tile).all()
