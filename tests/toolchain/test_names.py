import pytest

from ptxgym.toolchain.names import source_name


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z4gemmPK13__nv_bfloat16", "gemm"),
        ("_ZN4ours4gemmILi64EEEvPKf", "ours::gemm"),
        ("_ZN52_GLOBAL__N__00000000_9_kernel_cu_12345678_12345678ab4gemmEPf", "gemm"),
        ("_Z4gemmILi64EEvPf", "gemm"),
        ("plain", "plain"),
        ("_Z", "_Z"),
        ("_Z99x", "x"),
    ],
)
def test_a_kernel_is_called_as_in_its_source(mangled: str, name: str):
    assert source_name(mangled) == name
