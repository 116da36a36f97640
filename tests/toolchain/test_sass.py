import json
from pathlib import Path

import pytest

from ptxgym.tasks import BLACKWELL, HOPPER
from ptxgym.toolchain import ptx
from ptxgym.toolchain.sass import TARGET_FAMILIES, family, flops_per_thread, parse_disassembly


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("HGMMA.64x256x16.F32.BF16", "tensor"),
        ("QGMMA.64x64x32.F32.E4M3.E5M2", "tensor"),
        ("UTMALDG.2D.MULTICAST", "tma"),
        ("UTMASTG.2D", "tma"),
        ("UTMAREDG.2D.ADD", "tma"),
        ("UBLKCP.S.G", "bulk"),
        ("UBLKRED.G.S.ADD.F32.RN", "bulk"),
        ("HMMA.16816.F32.BF16", "legacy_tensor"),
        ("UTMACMDFLUSH", None),
        ("UTMACCTL.PF", None),
        ("FFMA", None),
        ("WARPGROUP.ARRIVE", None),
    ],
)
def test_hopper_families(opcode: str, expected: str | None):
    assert family(opcode, HOPPER) == expected
    assert (expected in TARGET_FAMILIES["90a"]) == (expected in ("tensor", "tma"))


@pytest.mark.parametrize(
    ("opcode", "counts"),
    [
        ("UTCHMMA.2CTA", True),
        ("UTCQMMA", True),
        ("LDTM.x32", True),
        ("STTM.x128", True),
        ("UTCATOMSWS.FIND_AND_SET.ALIGN", False),
        ("UTCBAR.2CTA.MULTICAST", False),
        ("UTCCP.T.S", False),
        ("UTMALDG.2D.2CTA", False),
        ("HMMA.16816.F32.BF16", False),
    ],
)
def test_on_blackwell_an_allocation_commit_or_copy_alone_does_not_count(opcode: str, counts: bool):
    assert (family(opcode, BLACKWELL) in TARGET_FAMILIES["100a"]) is counts


@pytest.mark.parametrize(
    ("opcode", "flops_per_warpgroup"),
    [
        ("HGMMA.64x256x16.F32.BF16", 2 * 64 * 256 * 16),
        ("HGMMA.64x8x16.F32.BF16", 2 * 64 * 8 * 16),
        ("HGMMA.64x64x16.F32", 0),  # fp16 operands
        ("HGMMA.64x8x16.F16", 0),  # what an empty commit group leaves
        ("HGMMA.SP.64x64x32.F32.BF16", 0),  # sparse: half of the products do not exist
        ("QGMMA.64x64x32.F32.E4M3.E5M2", 0),
        ("HMMA.16816.F32.BF16", 0),
        ("UTMALDG.2D", 0),
    ],
)
def test_only_dense_bf16_wgmma_does_the_work(opcode: str, flops_per_warpgroup: int):
    assert flops_per_thread(opcode, HOPPER) * 128 == flops_per_warpgroup


def test_blackwell_opcodes_do_not_tell_their_tile():
    assert flops_per_thread("UTCHMMA", BLACKWELL) is None
    assert flops_per_thread("LDTM.x32", BLACKWELL) == 0


def test_every_probed_instruction_falls_into_the_family_of_its_ptx():
    """Against a table of 306 one-instruction kernels, where the checkout has it beside it."""
    table = Path(__file__).parents[3] / "shared" / "data" / "sass_opcodes.json"
    if not table.exists():
        pytest.skip("the table of probed opcodes is not part of the project")
    expected = {"wgmma": "tensor", "tma-load": "tma", "tma-store": "tma", "tma-reduce": "tma", "mma": "legacy_tensor"}
    checked = 0
    for row in json.loads(table.read_text())["rows"]:
        opcodes = row["sm_90a"].split()
        if row["group"] in expected and "prefetch" not in row["ptx"] and "✗" not in opcodes:
            assert expected[row["group"]] in [family(opcode, HOPPER) for opcode in opcodes], row
            checked += 1
    assert checked > 40


def test_disassembly_is_counted_by_kernel():
    text = json.dumps(
        [
            {"Producer": "nvdisasm"},
            [{"function-name": "k", "sass-instructions": [{"opcode": "MOV"}, {"opcode": "MOV"}, {"opcode": "EXIT"}]}],
        ]
    )
    (kernel,) = parse_disassembly(text)
    assert (kernel.name, kernel.opcodes) == ("k", {"MOV": 2, "EXIT": 1})


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", "tensor"),
        ("wgmma.commit_group.sync.aligned", None),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "tma"),
        ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group", "tma"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "bulk"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", "bulk"),
        ("cp.async.bulk.commit_group", None),
        ("cp.async.bulk.wait_group.read", None),
        ("cp.async.cg.shared.global", None),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "legacy_tensor"),
        ("fma.rn.f32", None),
    ],
)
def test_ptx_falls_into_the_same_families(opcode: str, expected: str | None):
    assert ptx.family(opcode, HOPPER) == expected


def test_tensor_memory_counts_on_blackwell_alone():
    assert ptx.family("tcgen05.ld.sync.aligned.32x32b.x32.b32", BLACKWELL) == "tensor_memory"
    assert ptx.family("tcgen05.mma.cta_group::1.kind::f16", BLACKWELL) == "tensor"
    assert ptx.family("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", BLACKWELL) is None
    assert ptx.family("tcgen05.mma.cta_group::1.kind::f16", HOPPER) is None
