"""Copies, fills, variables and launches move the right bytes, from unmodified host code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import HERE, Built, Simulated, compile_cuda

pytestmark = pytest.mark.nvcc

PROGRAM = """
import ctypes, sys
for name in sys.argv[1:3]:
    ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
print(ctypes.CDLL(sys.argv[3]).check(sys.argv[4].encode()))
"""


@pytest.fixture(scope="module")
def transfers(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return compile_cuda(HERE / "transfers.cu", tmp_path_factory.mktemp("transfers"))


@pytest.mark.parametrize("group", ["lines", "rectangles", "fills", "variables", "host_memory", "launches"])
def test_nothing_is_lost_on_the_way(group: str, transfers: Built, simulate: Callable[..., Simulated]):
    simulated = simulate(transfers)
    libraries = simulated.libraries
    result = simulated.python(
        "-c", PROGRAM, str(libraries.driver), str(libraries.runtime), str(transfers.library), group
    )
    assert (result.stdout, result.stderr) == ("0\n", "")
    evidence = simulated.evidence()
    assert evidence["problems"] == evidence["refused"] == evidence["protocol"] == []


OLD_NVCC = Path("/usr/local/cuda-13.0/bin/nvcc")


@pytest.mark.skipif(not OLD_NVCC.exists(), reason="no CUDA 13.0 toolkit here")
def test_host_code_of_the_oldest_supported_compiler_binds_too(tmp_path: Path, simulate: Callable[..., Simulated]):
    built = compile_cuda(HERE / "transfers.cu", tmp_path, nvcc=OLD_NVCC)
    simulated = simulate(built)
    libraries = simulated.libraries
    for group in ("variables", "launches"):
        result = simulated.python(
            "-c", PROGRAM, str(libraries.driver), str(libraries.runtime), str(built.library), group
        )
        assert (result.stdout, result.stderr) == ("0\n", "")
        simulated = simulate(built)


def test_bytes_that_cross_between_host_and_device_are_counted(transfers: Built, simulate: Callable[..., Simulated]):
    simulated = simulate(transfers)
    libraries = simulated.libraries
    simulated.python("-c", PROGRAM, str(libraries.driver), str(libraries.runtime), str(transfers.library), "lines")
    evidence = simulated.evidence()
    size = (9 << 20) + 123
    assert (evidence["uploaded"], evidence["downloaded"]) == (size, 2 * size)
