"""Whole sessions: a source is compiled as always, runs in a confined process, and the simulator says what it saw."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

from ptxgym.devices.simulator.device import SimulatorDevice
from ptxgym.devices.simulator.runtime import session as session_module
from ptxgym.errors import CandidateError, InfrastructureError
from ptxgym.tasks import BLACKWELL, HOPPER, Shape, Task, get_task
from ptxgym.toolchain import Program, compile_source, read_source

pytestmark = pytest.mark.nvcc

EXAMPLES = Path(__file__).parents[4] / "examples" / "kernels" / "hopper"
TASK = get_task("PTXBench-GEMM-H100")
SHAPE: Shape = {"M": 256, "N": 256, "K": 128}

HEAD = "#include <cuda.h>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <vector>\n"
RUN = """
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
    %s
}
"""
ZERO = "__global__ void zero(__nv_bfloat16* C) { C[blockIdx.x * 256 + threadIdx.x] = 0.0f; }\n"


def build(body: str, kernels: str = "", task: Task = TASK) -> Program:
    program = compile_source(read_source(HEAD + kernels + RUN % body), task)
    assert program.status == "compiled", program.diagnostics
    return program


def inputs(task: Task = TASK, shape: Shape = SHAPE) -> dict[str, torch.Tensor]:
    return task.operator.make_inputs(shape, "normal", torch.Generator().manual_seed(7))


def run(program: Program, seconds: float = 60.0, task: Task = TASK):
    device = SimulatorDevice(task.architecture, run_seconds=seconds)
    with device.session(program, task) as session:
        session.bind(SHAPE)
        outputs, record = session.run(inputs())
        return outputs, record, session.evidence


@pytest.fixture
def device() -> SimulatorDevice:
    return SimulatorDevice(HOPPER)


MHA: Shape = {"batch": 1, "heads": 2, "seqlen": 256}


@pytest.mark.parametrize(
    ("name", "task_id", "shape"),
    [
        ("gemm.cu", "PTXBench-GEMM-H100", {"M": 512, "N": 768, "K": 640}),
        ("gemm_plain_cuda.cu", "PTXBench-GEMM-H100", SHAPE),
        ("mha_forward.cu", "PTXBench-MHAForward-H100", MHA),
        ("mha_forward_causal.cu", "PTXBench-MHAForwardCausal-H100", MHA),
        ("mha_backward.cu", "PTXBench-MHABackward-H100", MHA),
        ("mha_backward_causal.cu", "PTXBench-MHABackwardCausal-H100", MHA),
    ],
)
def test_an_example_runs_unmodified_and_is_right(name: str, task_id: str, shape: Shape):
    task = get_task(task_id)
    program = compile_source(read_source((EXAMPLES / name).read_text()), task)
    given = inputs(task, shape)
    with SimulatorDevice(HOPPER).session(program, task) as session:
        session.bind(shape)
        outputs, record = session.run(given)
        flops = sum(sum(launch["tensor_flops"].values()) for launch in session.evidence["launches"])
    for output, reference in task.operator.reference(given).items():
        error = (outputs[output].double() - reference).norm() / reference.norm()
        assert error < 0.003, output  # bf16 rounding of the output alone is 0.0017
    assert record.mutated_inputs == record.overrun_outputs == ()
    assert flops >= task.operator.flops(shape) or "plain" in name


def test_instructions_are_counted_and_tensor_flops_are_those_of_whole_tiles(device: SimulatorDevice):
    program = compile_source(read_source((EXAMPLES / "gemm.cu").read_text()), TASK)
    report = device.count_instructions(program, TASK, SHAPE, inputs())
    (kernel,) = report.kernels
    assert kernel.name in {k.name for k in program.instructions}
    tiles = {"M": 2 * 256, "N": 2 * 176, "K": 128}  # a cluster has two, one above the other; C needs two clusters
    assert kernel.tensor_flops == {"wgmma/bf16": TASK.operator.flops(tiles)}
    assert any(opcode.startswith("wgmma.mma_async") for opcode in kernel.threads)
    assert kernel.bytes["tma.load"] > 0 if "tma.load" in kernel.bytes else kernel.bytes


def test_memory_of_a_good_kernel_has_no_errors(device: SimulatorDevice):
    program = compile_source(read_source((EXAMPLES / "gemm.cu").read_text()), TASK)
    report = device.check_memory(program, TASK, SHAPE, inputs())
    assert (report.errors, report.complete) == (0, True)


def test_no_time_is_ever_given(device: SimulatorDevice):
    with pytest.raises(InfrastructureError, match="gives no times"):
        device.time(build("return cudaSuccess;"), TASK, SHAPE, inputs(), None, "hot")  # type: ignore[arg-type]
    assert not device.runs_workload


def test_an_error_that_run_returns_is_a_refusal_with_its_name():
    with pytest.raises(CandidateError) as caught:
        run(build("return cudaErrorNotYetImplemented;"))
    assert caught.value.reason == "refused"
    assert "cudaErrorNotYetImplemented" in caught.value.message


def test_a_refused_launch_says_why():
    with pytest.raises(CandidateError) as caught:
        run(build("zero<<<256, 256, 60000, stream>>>(C); return cudaGetLastError();", ZERO))
    assert caught.value.reason == "refused"
    assert "60000 bytes of dynamic shared memory" in caught.value.message


OUT_OF_BOUNDS = "__global__ void wild(short* C) { C[256 * 256 + threadIdx.x] = 1; }\n"


def test_a_fault_names_the_place(device: SimulatorDevice):
    program = build("wild<<<1, 1, 0, stream>>>((short*)C); return cudaGetLastError();", OUT_OF_BOUNDS)
    with pytest.raises(CandidateError) as caught:
        run(program)
    assert caught.value.reason == "device_error"
    assert "kernel.cu:6" in caught.value.message
    assert "past the end of C" in caught.value.message
    report = device.check_memory(program, TASK, SHAPE, inputs())
    assert report.errors == 1
    assert "out-of-bounds" in report.reports[0]


def test_a_host_that_follows_a_device_pointer_crashes_as_on_a_gpu():
    with pytest.raises(CandidateError) as caught:
        run(build("memset(C, 0, 16); return cudaSuccess;"))
    assert caught.value.reason == "crash"
    assert "SIGSEGV" in caught.value.message


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("cudaGraph_t g; return cudaGraphCreate(&g, 0);", "cudaGraphCreate"),
        ("return cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);", "cudaStreamBeginCapture"),
        ("return cudaHostRegister(&M, 4, 0);", "cudaHostRegister"),
        ("CUgraph g; return (cudaError_t)cuGraphCreate(&g, 0);", "cuGraphCreate"),
    ],
)
def test_what_the_runtime_lacks_is_refused_by_name_and_not_held_against_the_candidate(call: str, name: str):
    with pytest.raises(InfrastructureError, match=name):
        run(build(call))


def test_a_refused_call_whose_result_does_not_matter_is_no_fault():
    body = "cudaGraph_t g; cudaGraphCreate(&g, 0); cudaGetLastError(); zero<<<256, 256>>>(C); return cudaSuccess;"
    outputs, _, evidence = run(build(body, ZERO))
    assert not outputs["C"].any()
    assert evidence["refused"] == ["cudaGraphCreate"]


def test_outputs_arrive_poisoned_and_inputs_are_watched():
    outputs, _, _ = run(build("return cudaSuccess;"))
    assert outputs["C"].isnan().all()
    kernel = "__global__ void spoil(__nv_bfloat16* A) { A[threadIdx.x] = 3.0f; }\n"
    _, record, _ = run(build("spoil<<<1, 32>>>(const_cast<__nv_bfloat16*>(A)); return cudaSuccess;", kernel))
    assert record.mutated_inputs == ("A",)


def test_a_host_that_computes_by_itself_is_not_taken_for_a_kernel():
    body = """
    std::vector<__nv_bfloat16> a(M * K), b(N * K), c(M * N);
    cudaMemcpy(a.data(), A, a.size() * 2, cudaMemcpyDeviceToHost);
    cudaMemcpy(b.data(), B, b.size() * 2, cudaMemcpyDeviceToHost);
    return cudaMemcpy(C, c.data(), c.size() * 2, cudaMemcpyHostToDevice);"""
    with pytest.raises(CandidateError, match="Host code copied every input"):
        run(build(body))


def test_what_kernels_print_is_kept():
    kernel = '__global__ void speak(int n) { printf("n is %d\\n", n); }\n'
    _, _, evidence = run(build("speak<<<1, 1>>>(M); return cudaSuccess;", kernel))
    assert evidence["output"] == "n is 256\n"


def test_an_allocation_that_only_the_gpu_could_hold_is_the_simulators_limit():
    body = "void* p; return cudaMalloc(&p, size_t(20) << 30);"
    with pytest.raises(InfrastructureError, match="memory cannot hold"):
        run(build(body))
    with pytest.raises(CandidateError) as caught:
        run(build("void* p; return cudaMalloc(&p, size_t(200) << 30);"))
    assert "out of memory" in caught.value.message


def test_an_allocation_that_failed_and_was_not_needed_is_no_fault():
    body = "void* p; cudaMalloc(&p, size_t(20) << 30); cudaGetLastError(); zero<<<256, 256>>>(C); return cudaSuccess;"
    outputs, _, evidence = run(build(body, ZERO))
    assert not outputs["C"].any()
    assert evidence["limits"]


def test_an_endless_kernel_ends_within_its_time():
    kernel = "__global__ void spin(volatile int* p) { while (true) p[0] = p[0] + 1; }\n"
    with pytest.raises(CandidateError) as caught:
        run(build("spin<<<1, 1>>>((int*)C); return cudaDeviceSynchronize();", kernel), seconds=2.0)
    assert caught.value.reason == "timeout"
    assert "spin at kernel.cu:6: " in caught.value.message
    assert "its 2 s of processor time; last here: 1 thread of block (0, 0, 0), warp 0" in caught.value.message


def test_an_endless_host_is_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "_HOST_SECONDS", 1.0)
    program = build("for (volatile int i = 0;; i = i + 1) {} return cudaSuccess;")
    with pytest.raises(CandidateError, match="host code did not return") as caught:
        run(program)
    assert caught.value.reason == "timeout"


def test_an_endless_host_that_asks_for_work_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "_HOST_SECONDS", 1.0)
    with pytest.raises(CandidateError) as caught:
        run(build("for (;;) cudaMemset(C, 0, 2 * M * N); return cudaSuccess;"), seconds=1.0)
    assert caught.value.reason == "timeout"


def test_a_sleeping_host_is_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "_HOST_SECONDS", 0.5)
    with pytest.raises(CandidateError, match="host code did not return") as caught:
        run(build("timespec t{3600, 0}; nanosleep(&t, nullptr); return cudaSuccess;"))
    assert caught.value.reason == "timeout"


def test_a_machine_without_time_for_the_simulator_is_not_held_against_the_candidate(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "WALL_FACTOR", 0)
    monkeypatch.setattr(session_module, "_SLACK_SECONDS", 1.0)
    with pytest.raises(InfrastructureError, match="too busy"):
        run(build("for (volatile int i = 0;; i = i + 1) {} return cudaSuccess;"))


def test_the_devices_time_is_not_the_hosts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "_HOST_SECONDS", 1.0)
    kernel = "__global__ void slow(int* p) { for (int i = 0; i < 100000; ++i) p[i % 7] += i; }\n"
    start = time.monotonic()
    run(build("for (int i = 0; i < 3; ++i) slow<<<1, 1>>>((int*)C); return cudaGetLastError();", kernel))
    assert time.monotonic() - start > 1.5


def test_the_candidates_process_is_confined_as_on_a_gpu():
    body = """
    if (FILE* file = fopen("/etc/passwd", "r")) { fclose(file); return cudaErrorUnknown; }
    if (system("true") == 0) return cudaErrorUnknown;
    zero<<<256, 256, 0, stream>>>(C);
    return cudaGetLastError();"""
    with SimulatorDevice(HOPPER).session(build(body, ZERO), TASK) as session:
        session.bind(SHAPE)
        session.run(inputs())
        assert set(session.confinement) == {"limits", "files", "syscalls"}


def test_one_session_serves_several_shapes_and_calls():
    program = build("zero<<<M * N / 256, 256, 0, stream>>>(C); return cudaGetLastError();", ZERO)
    with SimulatorDevice(HOPPER).session(program, TASK) as session:
        for shape in (SHAPE, {"M": 512, "N": 256, "K": 64}, SHAPE):
            session.bind(shape)
            for _ in range(2):
                outputs, _ = session.run(inputs(shape=shape))
                assert outputs["C"].shape == (shape["M"], shape["N"])
                assert not outputs["C"].any()


def test_host_threads_may_call_at_the_same_time():
    body = """
    std::vector<std::thread> threads;
    std::atomic<int> bad{0};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            void* p;
            cudaStream_t own;
            bad += cudaStreamCreate(&own) != cudaSuccess || cudaMalloc(&p, 1000) != cudaSuccess;
            for (int i = t; i < 256; i += 4) row<<<1, 256, 0, own>>>(C, i);
            bad += cudaStreamSynchronize(own) != cudaSuccess || cudaFree(p) != cudaSuccess;
            bad += cudaStreamDestroy(own) != cudaSuccess;
        });
    for (auto& thread : threads) thread.join();
    return bad ? cudaErrorUnknown : cudaSuccess;"""
    kernel = """
#include <atomic>
#include <thread>
__global__ void row(__nv_bfloat16* C, int i) { C[i * 256 + threadIdx.x] = float(i); }
"""
    outputs, _, evidence = run(build(body, kernel))
    assert torch.equal(outputs["C"].float(), torch.arange(256.0).unsqueeze(1).expand(256, 256))
    assert sum(launch["launches"] for launch in evidence["launches"]) == 256


def test_a_kernel_that_was_loaded_at_run_time_is_told_from_one_of_the_source():
    body = """
    const char* ptx = ".version 8.0\\n.target sm_90\\n.address_size 64\\n"
                      ".visible .entry _Z4zeroP13__nv_bfloat16(.param .u64 p) { ret; }";
    CUmodule module;
    CUfunction function;
    if (cuModuleLoadData(&module, ptx)) return cudaErrorInvalidPtx;
    if (cuModuleGetFunction(&function, module, "_Z4zeroP13__nv_bfloat16")) return cudaErrorSymbolNotFound;
    void* arguments[] = {&C};
    zero<<<256, 256>>>(C);
    return (cudaError_t)cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);"""
    _, _, evidence = run(build(body, ZERO))
    own, loaded = (launch["name"] for launch in evidence["launches"])
    assert loaded == f"{own} (loaded at run time)"


def test_sessions_run_side_by_side():
    program = build("zero<<<256, 256, 0, stream>>>(C); return cudaGetLastError();", ZERO)
    seen: list[bool] = []

    def once() -> None:
        outputs, _, _ = run(program)
        seen.append(not outputs["C"].any())

    threads = [threading.Thread(target=once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 4


def test_a_simulator_that_dies_is_this_machines_fault():
    program = build("zero<<<256, 256>>>(C); return cudaGetLastError();", ZERO)
    with SimulatorDevice(HOPPER).session(program, TASK) as session:
        session.bind(SHAPE)
        os.kill(session.processes[0], signal.SIGKILL)
        with pytest.raises(InfrastructureError, match="simulator"):
            session.run(inputs())


def test_blackwell_is_served_too():
    task = get_task("PTXBench-GEMM-B200")
    program = build("zero<<<256, 256, 0, stream>>>(C); return cudaGetLastError();", ZERO, task)
    with SimulatorDevice(BLACKWELL).session(program, task) as session:
        session.bind(SHAPE)
        outputs, _ = session.run(inputs())
    assert not outputs["C"].any()


GRID = """
#include <cooperative_groups.h>
__global__ void both_halves(float* sums, __nv_bfloat16* C) {
    auto grid = cooperative_groups::this_grid();
    if (threadIdx.x == 0) sums[blockIdx.x] = blockIdx.x + 1;
    grid.sync();
    float sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += sums[i];
    for (size_t i = grid.thread_rank(); i < 256 * 256; i += grid.size()) C[i] = sum;
}
"""
SUMS = "float* sums; cudaMalloc(&sums, 32); void* arguments[] = {&sums, &C}; "


def test_a_cooperative_grid_synchronises_and_another_may_not():
    launch = SUMS + "return cudaLaunchCooperativeKernel((void*)both_halves, 8, 128, arguments, 0, stream);"
    outputs, _, _ = run(build(launch, GRID))
    assert (outputs["C"] == 36).all()
    with pytest.raises(CandidateError, match="trap"):
        run(build(SUMS + "return cudaLaunchKernel((void*)both_halves, 8, 128, arguments, 0, stream);", GRID))


def children_of(pid: int) -> set[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return {int(each) for each in listed.split()}


def test_a_killed_judge_leaves_no_process_behind():
    program = build("for (volatile int i = 0;; i = i + 1) {} return cudaSuccess;")
    script = textwrap.dedent(f"""
        import torch
        from pathlib import Path
        from ptxgym.devices.simulator.device import SimulatorDevice
        from ptxgym.tasks import get_task
        from ptxgym.toolchain import Program
        task = get_task("PTXBench-GEMM-H100")
        program = Program.model_validate_json(Path({str(program.folder / "program.json")!r}).read_text())
        program = program.model_copy(update={{"folder": Path({str(program.folder)!r})}})
        with SimulatorDevice(task.architecture).session(program, task) as session:
            session.bind({SHAPE!r})
            print("bound", flush=True)
            session.run(task.operator.make_inputs({SHAPE!r}, "normal", torch.Generator()))
    """)
    judge = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert judge.stdout is not None
    with judge.stdout:
        assert judge.stdout.readline() == "bound\n"
        time.sleep(0.5)
        children = children_of(judge.pid)
        assert len(children) == 2
        judge.kill()
        judge.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() and not zombie(pid) for pid in children):
        assert time.monotonic() < deadline, "a process outlived its judge"
        time.sleep(0.05)


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_descriptors_beyond_those_of_select_are_fine():
    program = build("zero<<<256, 256>>>(C); return cudaGetLastError();", ZERO)
    with contextlib.ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.enter_context(open("/dev/null"))
        outputs, _, _ = run(program)
    assert not outputs["C"].any()


def test_a_closed_session_leaves_nothing():
    program = build("return cudaSuccess;")
    before = set(os.listdir("/proc/self/fd"))
    session = SimulatorDevice(HOPPER).session(program, TASK)
    session.bind(SHAPE)
    session.close()
    assert not Path(f"/proc/{session.processes[0]}").exists()
    assert set(os.listdir("/proc/self/fd")) == before
    assert session._host.address not in Path("/proc/net/unix").read_text()
