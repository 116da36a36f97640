"""Requests for tensor maps: checked by the driver's rules, encoded as the executor reads them."""

from __future__ import annotations

from dataclasses import replace

from ptxgym.devices.simulator.runtime.protocol import Code, Request, RequestError
from ptxgym.devices.simulator.runtime.tensor_map_rules import Im2col, Tiled, broken_rule
from ptxgym.devices.simulator.tensor_map import (
    FILLS,
    INTERLEAVES,
    KINDS,
    SWIZZLES,
    NotATensorMap,
    TensorMapFields,
    decode,
    encode,
)


def encode_tiled(request: Request, blackwell: bool) -> bytes:
    """``cuTensorMapEncodeTiled``.

    Raises:
        RequestError: A rule is broken.
    """
    words = [request.word(index) for index in range(26)]
    rank = words[1]
    if not 1 <= rank <= 5:
        raise RequestError(Code.INVALID_VALUE, f"cuTensorMapEncodeTiled: rank {rank} is not from 1 to 5")
    tiled = Tiled(
        words[0], rank, words[2], tuple(words[3 : 3 + rank]), tuple(words[8 : 7 + rank]),
        tuple(words[12 : 12 + rank]), tuple(words[17 : 17 + rank]), *words[22:26],
    )  # fmt: skip
    if rule := broken_rule(tiled, blackwell):
        raise RequestError(Code.INVALID_VALUE, f"cuTensorMapEncodeTiled: {rule}")
    return encode(
        TensorMapFields(
            kind=KINDS[tiled.type],
            address=tiled.address,
            sizes=tiled.dims,
            strides=tiled.strides,
            box=tiled.box,
            element_strides=tiled.steps,
            interleave=INTERLEAVES[tiled.interleave],
            swizzle=SWIZZLES[tiled.swizzle],
            l2_promotion=tiled.promotion,
            fill=FILLS[tiled.fill],
        )
    )


def encode_im2col(request: Request, blackwell: bool) -> bytes:
    """``cuTensorMapEncodeIm2col``: checked, then refused, since the executor has no such copies.

    Raises:
        RequestError: Always.
    """
    words = [request.word(index) for index in range(29)]
    rank = words[1]
    if not 3 <= rank <= 5:
        raise RequestError(Code.INVALID_VALUE, f"cuTensorMapEncodeIm2col: rank {rank} is not from 3 to 5")
    lower = tuple(request.signed(12 + axis) for axis in range(rank - 2))
    upper = tuple(request.signed(15 + axis) for axis in range(rank - 2))
    map_ = Im2col(
        words[0], rank, words[2], tuple(words[3 : 3 + rank]), tuple(words[8 : 7 + rank]), lower, upper,
        words[18], words[19], tuple(words[20 : 20 + rank]), *words[25:29],
    )  # fmt: skip
    if rule := broken_rule(map_, blackwell):
        raise RequestError(Code.INVALID_VALUE, f"cuTensorMapEncodeIm2col: {rule}")
    raise RequestError(Code.NOT_SUPPORTED, refused="cuTensorMapEncodeIm2col")


def replace_address(request: Request) -> bytes:
    """``cuTensorMapReplaceAddress``.

    Raises:
        RequestError: The bytes are no map, or the address is misaligned.
    """
    try:
        fields = decode(request.data)
    except (NotATensorMap, IndexError):
        raise RequestError(Code.INVALID_VALUE, "cuTensorMapReplaceAddress: this is no tensor map") from None
    if request.word(0) % (32 if fields.interleave == "32B" else 16):
        raise RequestError(Code.INVALID_VALUE, "cuTensorMapReplaceAddress: the address is misaligned")
    return encode(replace(fields, address=request.word(0)))
