"""What the two libraries export: every name of NVIDIA's own, in its version, each one working or refused by name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ptxgym.devices.simulator.runtime import library, protocol
from ptxgym.devices.simulator.runtime.library import RuntimeLibraries
from ptxgym.toolchain import find_toolkit

CSRC = Path(library.__file__).parent / "csrc"

# Runtime and driver symbols that two or more of 53 public repositories with Hopper or Blackwell PTX use.
WILD = """
__cudaInitModule __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary __cudaGetKernel
__cudaLaunchKernel __cudaPopCallConfiguration __cudaRegisterFunction __cudaPushCallConfiguration __cudaRegisterVar
cudaGetErrorString cudaMalloc cudaFuncSetAttribute cudaMemcpy cudaDeviceSynchronize cudaFree cudaEventElapsedTime
cudaEventRecord cudaGetLastError cudaEventSynchronize cudaEventCreate cudaLaunchKernelExC cudaEventDestroy
cudaDeviceGetAttribute cudaMemset cudaGetDeviceProperties cudaSetDevice cudaGetDevice cudaGetErrorName
cudaGetDeviceCount cudaPeekAtLastError cudaRuntimeGetVersion cudaDriverGetVersion cudaGetDriverEntryPoint
cudaGetDriverEntryPointByVersion cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaFuncGetAttributes
cudaStreamSynchronize cudaMemcpyAsync cudaFreeHost cudaMemsetAsync cudaStreamCreate cudaStreamCreateWithFlags
cudaLaunchCooperativeKernel cudaMallocHost cudaHostAlloc cudaMemcpyToSymbol cudaStreamDestroy cudaStreamWaitEvent
cudaStreamIsCapturing cudaEventCreateWithFlags cudaEventQuery cudaOccupancyMaxPotentialClusterSize
cuTensorMapEncodeTiled cuGetErrorString
"""

# What candidate.py and a cheap driver-API program call.
DRIVER = """
cuInit cuDeviceGet cuDevicePrimaryCtxRetain cuCtxSetCurrent cuStreamCreate cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle
cuMemAlloc_v2 cuMemFree_v2 cuMemcpy cuCtxSynchronize cuMemsetD8Async cuModuleLoadData cuModuleGetFunction
cuFuncSetAttribute cuLaunchKernel cuLaunchKernelEx cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuGetProcAddress_v2
"""


def exported(path: Path) -> dict[str, str]:
    """Symbol to version, empty without."""
    text = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    names = (line.split()[2] for line in text.splitlines() if line.split()[1] in "TWi")
    return {name.partition("@")[0]: name.partition("@")[2].lstrip("@") for name in names}


def soname(path: Path) -> str:
    text = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    match = re.search(r"SONAME.*\[(.*)\]", text)
    return match[1] if match else ""


def test_the_names_are_those_that_programs_ask_for(libraries: RuntimeLibraries):
    assert (soname(libraries.driver), soname(libraries.runtime)) == ("libcuda.so.1", "libcudart.so.13")


def test_everything_that_the_real_runtime_exports_is_there_in_its_version(libraries: RuntimeLibraries):
    ours, real = exported(libraries.runtime), exported(find_toolkit().runtime / "libcudart.so.13")
    assert real.keys() - ours.keys() == set()
    assert {version for name, version in ours.items() if name in real} == {"libcudart.so.13"}


def test_what_public_kernels_use_works():
    support = library.support()
    assert all(support[name] for name in (WILD + DRIVER).split())


def test_what_is_refused_is_exported_too(libraries: RuntimeLibraries):
    ours = exported(libraries.runtime).keys() | exported(libraries.driver).keys()
    assert library.refused_names() <= ours
    assert {"cudaGraphCreate", "cudaHostRegister", "cuGraphCreate", "cudaMallocArray"} <= library.refused_names()


def test_the_driver_exports_nothing_but_the_driver_and_what_the_runtime_needs(libraries: RuntimeLibraries):
    others = [name for name in exported(libraries.driver) if not re.match(r"cu[A-Z]", name)]
    assert 0 < len(others) <= 20


def test_entry_points_are_functions_that_exist(libraries: RuntimeLibraries):
    rows = re.findall(r"ENTRY\((\w+), (\d+), (\w+)\)", (CSRC / "entry_points.def").read_text())
    assert {function for _, _, function in rows} <= exported(libraries.driver).keys()
    assert all(function.startswith(name) for name, _, function in rows)


def test_both_sides_of_the_protocol_say_the_same():
    header = (CSRC / "protocol.h").read_text()
    operations = {name: int(value) for name, value in re.findall(r"\bOP_(\w+) = (\d+)", header)}
    assert operations == {operation.name: operation.value for operation in protocol.Operation}
    kinds = {name: int(value) for name, value in re.findall(r"\bMEMORY_(\w+) = (\d+)", header)}
    assert kinds == {kind.name: kind.value for kind in protocol.MemoryKind}
    for name, value in (("PROTOCOL_VERSION", protocol.VERSION), ("MOST_WORDS", protocol.MOST_WORDS)):
        assert re.search(rf"\b{name} = {value}\b", header)
    assert f"MOST_BYTES = {protocol.MOST_BYTES >> 20} << 20" in header
    assert f"BOUNCE_BYTES = {protocol.BOUNCE_BYTES >> 20} << 20" in header


@pytest.mark.skipif(not Path("/usr/local/cuda-13.0/include/cuda.h").exists(), reason="no CUDA 13.0 toolkit here")
def test_the_oldest_supported_headers_compile_too(tmp_path: Path):
    from dataclasses import replace

    old = Path("/usr/local/cuda-13.0")
    library.build(tmp_path, replace(find_toolkit(), nvcc=old / "bin" / "nvcc"))
    assert "cudaMalloc" in exported(tmp_path / "libcudart.so.13")
