"""Real nvcc, real disassembler."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ptxgym.tasks import TASKS, get_task
from ptxgym.toolchain import Cache, compile_source, read_source
from ptxgym.toolchain.compiler import contract_header
from ptxgym.toolchain.process import Limits

BODY = "int M, int N, int K, cudaStream_t stream) { return cudaSuccess; }"
EMPTY = f'extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, {BODY}'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("PTXGYM_CACHE", str(tmp_path / "cache"))
    return Cache("programs")


def test_the_example_compiles_into_library_ptx_cubin_and_report(gemm, kernel):
    program = compile_source(read_source(kernel("gemm")), gemm)
    assert program.status == "compiled", program.diagnostics
    assert program.target == "sm_90a"
    for artefact in (program.library, program.ptx, program.cubin, program.source_file):
        assert artefact.stat().st_size > 0
    (resources,) = program.kernels
    assert resources.registers == 168
    assert resources.spill_store_bytes == resources.spill_load_bytes == 0
    assert program.advisories == ()
    assert program.instructions[0].name == resources.name
    assert program.opcodes()["HGMMA.64x176x16.F32.BF16"] > 0
    assert any(opcode.startswith("UTMALDG") for opcode in program.opcodes())
    assert not any(opcode.startswith("BRA.U.ANY") for opcode in program.opcodes())
    assert type(program).model_validate_json(program.model_dump_json()) == program


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.id)
def test_contract_declares_run_as_the_operator_does(task):
    assert task.operator.signature() in contract_header(task)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no_run", "exports no `run`"),
        ("wrong_signature", 'more than one instance of overloaded function "run"'),
        ("compile_error", "kernel.cu(3): error"),
        ("link_error", "defined_nowhere"),
        ("wrong_architecture", "tcgen05"),
    ],
)
def test_what_does_not_compile_says_why_with_the_line(name, expected, gemm, kernel):
    program = compile_source(read_source(kernel(name)), gemm)
    assert program.status == "rejected"
    assert expected in program.diagnostics
    assert str(program.folder) not in program.diagnostics


@pytest.mark.parametrize(
    "source",
    [
        EMPTY.replace("int K, ", ""),
        EMPTY.replace("cudaError_t run", "void run").replace("return cudaSuccess; ", ""),
        EMPTY.replace("run(", "go("),
    ],
)
@pytest.mark.usefixtures("cache")
def test_a_run_that_is_not_the_declared_one_is_shown_what_is_declared(source, gemm):
    program = compile_source(read_source(source), gemm)
    assert program.status == "rejected"
    assert f"The task declares: {gemm.operator.signature()}" in program.diagnostics


def test_no_macro_reaches_a_file_outside(gemm, kernel, tmp_path):
    secret = tmp_path / "secret.h"
    secret.write_text("int the_secret_value = 42;\n")
    source = kernel("outside_include").replace("/etc/hostname", str(secret))
    program = compile_source(read_source(source), gemm)
    assert program.status == "rejected"
    assert "the_secret_value" not in program.diagnostics
    assert "42" not in program.diagnostics


def test_a_symlink_or_incbin_by_macro_reaches_nothing_outside(gemm, tmp_path):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"the_secret_value")
    source = f'{EMPTY}\n#define BIN ".inc" "bin"\nasm(BIN " \\"{secret}\\"");'
    program = compile_source(read_source(source), gemm)
    assert program.status == "rejected"


def test_advisories_say_what_they_mean(gemm):
    source = f"""
    __global__ void __launch_bounds__(384) k(float* p) {{
      asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      p[threadIdx.x] = 1;
    }}
    {EMPTY.replace("{ return", "{ k<<<1, 384, 0, stream>>>((float*)C); return")}"""
    program = compile_source(read_source(source), gemm)
    assert program.status == "compiled", program.diagnostics
    assert [advisory.code for advisory in program.advisories] == ["C7508"]
    assert "__launch_bounds__" in program.advisories[0].meaning


def test_driver_functions_may_be_called_by_name(gemm):
    body = EMPTY.replace("{ return", "{ CUdevice d; cuDeviceGet(&d, 0); return")
    program = compile_source(read_source(f"#include <cuda.h>\n{body}"), gemm)
    assert program.status == "compiled", program.diagnostics


def test_a_source_may_include_the_packs_headers(gemm):
    program = compile_source(read_source(f"#include <ptxgym/hopper.cuh>\n{EMPTY}"), gemm)
    assert program.status == "compiled", program.diagnostics


def test_blackwell_tasks_compile_for_sm_100a():
    source = EMPTY + '\n__global__ void k() { asm volatile("tcgen05.wait::ld.sync.aligned;"); }'
    program = compile_source(read_source(source), get_task("PTXBench-GEMM-B200"))
    assert program.status == "compiled", program.diagnostics
    assert program.target == "sm_100a"


def test_an_endless_compilation_is_stopped_and_not_remembered(gemm, cache):
    levels = "".join(f"#define X{n + 1} X{n} X{n} X{n} X{n} X{n} X{n} X{n} X{n}\n" for n in range(12))
    source = f"#define X0 int f(int);\n{levels}X12\n{EMPTY}"  # eight to the twelfth declarations
    program = compile_source(read_source(source), gemm, cache, Limits(seconds=2))
    assert program.status == "timeout"
    assert "stopped after 2 s" in program.diagnostics
    assert cache.find(program.key) is None
    assert not list(cache.folder.glob("*"))


def test_a_flood_of_diagnostics_is_cut(gemm):
    warnings = "".join(f'#warning "{"x" * 200}{n}"\n' for n in range(3000))
    program = compile_source(read_source(warnings + EMPTY), gemm)
    assert len(program.diagnostics) < 20_000


def test_the_same_source_is_compiled_once_and_found_again(gemm, cache):
    first = compile_source(read_source(EMPTY), gemm, cache)
    marker = first.folder / "marker"
    marker.touch()
    again = compile_source(read_source(EMPTY), gemm, cache)
    assert again == first
    assert marker.exists(), "it was built anew"


def test_a_refused_source_gives_the_same_complaint_from_the_cache(gemm, cache):
    first = compile_source(read_source("int x"), gemm, cache)
    assert first.status == "rejected"
    assert compile_source(read_source("int x"), gemm, cache).diagnostics == first.diagnostics


def test_parallel_compilations_of_one_source_agree(gemm, cache):
    with ThreadPoolExecutor(3) as pool:
        programs = list(pool.map(lambda _: compile_source(read_source(EMPTY), gemm, cache), range(3)))
    assert len({program.folder for program in programs}) == 1
    assert all(program.library.exists() for program in programs)
    assert not list(cache.folder.glob(".adding-*"))
