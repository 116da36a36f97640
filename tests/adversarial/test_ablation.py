"""Ablation tells a decoy from work: what a product should do that counts instructions."""

import re
import subprocess
from pathlib import Path

import pytest

from ptxgym.devices import InstructionReport, KernelExecution
from ptxgym.devices.simulator.runtime.session import SimulatorSession
from ptxgym.evaluation.comparison import compare
from ptxgym.evaluation.stages import _could_do_without
from ptxgym.tasks import get_task
from ptxgym.toolchain import Program, compile_source, find_toolkit, read_source
from ptxgym.toolchain.ablation import ablate

from .suite import FOLDER, ROOT, source, task


def _still_right(path: Path, folder: Path) -> bool:
    import torch

    gemm = task()
    ablated = ablate(compile_source(read_source(source(path)), gemm), folder, machine_code=False)
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


EXAMPLE_TASKS = {"gemm": "GEMM", "mha_forward": "MHAForward", "mha_backward": "MHABackward"}


@pytest.mark.parametrize("name", EXAMPLE_TASKS)
def test_the_machine_code_of_the_edit_is_in_the_library_and_differs_in_tensor_instructions_alone(
    name: str, tmp_path: Path
) -> None:
    path = ROOT / "examples" / "kernels" / "hopper" / f"{name}.cu"
    program = compile_source(read_source(source(path)), get_task(f"PTXBench-{EXAMPLE_TASKS[name]}-H100"))
    ablated = ablate(program, tmp_path, machine_code=True)
    assert ablated is not None
    before, after = (_instructions(each) for each in (program, ablated))
    changed = {(old, new) for old, new in zip(before, after, strict=True) if old != new}
    assert changed
    assert all("HGMMA" in old and old == re.sub(r"\.negA|-(?=R)", "", new) for old, new in changed)
    assert ablated.cubin.read_bytes() in ablated.library.read_bytes()
    assert program.cubin.read_bytes() not in ablated.library.read_bytes()
    assert ablated.library.stat().st_size == program.library.stat().st_size


def _instructions(program: Program) -> list[str]:
    listing = subprocess.run([find_toolkit().nvdisasm, "-c", program.cubin], capture_output=True, text=True, check=True)
    lines = (line.split(";")[0] for line in listing.stdout.splitlines() if re.match(r"\s+/\*[0-9a-f]{4,5}\*/", line))
    return [" ".join(line.split()) for line in lines]


@pytest.mark.parametrize(
    ("per_flop", "expected"), [(1.0, True), (0.01, False)], ids=["as-much-as-the-work", "a-hundredth"]
)
def test_only_what_could_do_without_tensor_instructions_is_run_without_them(per_flop: float, expected: bool) -> None:
    gemm = task()
    flops = gemm.operator.flops(gemm.workload)
    threads = {"HGMMA.64x256x16.F32.BF16": flops // 4096, "FFMA": int(flops * per_flop / 2)}
    kernel = KernelExecution(name="k", threads=threads)
    report = InstructionReport(tool="", dialect="sass", shape=dict(gemm.workload), kernels=(kernel,))
    assert _could_do_without(report, gemm) is expected
