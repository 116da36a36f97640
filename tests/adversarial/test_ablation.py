"""Ablation tells a decoy from work: what a product should do that counts instructions."""

from pathlib import Path

import pytest

from ptxgym.devices.simulator.runtime.session import SimulatorSession
from ptxgym.evaluation.comparison import compare
from ptxgym.toolchain import compile_source, read_source
from ptxgym.toolchain.ablation import ablate

from .suite import FOLDER, source, task


def _still_right(path: Path, folder: Path) -> bool:
    import torch

    gemm = task()
    ablated = ablate(compile_source(read_source(source(path)), gemm), folder)
    assert ablated is not None
    shape = gemm.probes[0]
    inputs = gemm.operator.make_inputs(shape, "normal", torch.Generator().manual_seed(1))
    with SimulatorSession(ablated, gemm) as session:
        session.bind(shape)
        outputs, _ = session.run(inputs)
    C = gemm.operator.reference(inputs)["C"]
    return compare(outputs["C"], C, gemm.tolerance, name="C", shape="", distribution="normal").passed


@pytest.mark.parametrize("name", ["decoy_unused_product", "decoy_zero_operands"])
def test_a_decoy_is_right_without_its_tensor_instructions(name: str, tmp_path: Path) -> None:
    assert _still_right(FOLDER / "attacks" / f"{name}.cu", tmp_path)


@pytest.mark.parametrize("name", ["plain", "split_k", "mostly_tensor_cores", "static_tensor_maps"])
def test_work_goes_wrong_without_them(name: str, tmp_path: Path) -> None:
    assert not _still_right(FOLDER / "honest" / f"{name}.cu", tmp_path)


def test_a_rotation_alone_does_not_stop_a_replay_that_looks_for_it() -> None:
    """Why replay_rotation is not caught: both calls are right, and the second multiplied nothing."""
    import torch

    gemm = task()
    program = compile_source(read_source(source(FOLDER / "attacks" / "replay_rotation.cu")), gemm)
    shape = gemm.probes[0]
    inputs = gemm.operator.make_inputs(shape, "normal", torch.Generator().manual_seed(1))
    flops = []
    with SimulatorSession(program, gemm) as session:
        session.bind(shape)
        for blocks in (0, 77):
            outputs, _ = session.run(gemm.operator.rotate(inputs, shape, blocks))
            expected = gemm.operator.rotate(gemm.operator.reference(inputs), shape, blocks)["C"]
            assert compare(outputs["C"], expected, gemm.tolerance, name="C", shape="", distribution="normal").passed
            flops.append(sum(sum(launch["tensor_flops"].values()) for launch in session.evidence["launches"]))
    assert flops[0] > 0
    assert flops[1] == 0
