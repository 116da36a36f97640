import dataclasses

import pytest

from ptxgym.errors import MisuseError, UnknownTaskError
from ptxgym.tasks import ARCHITECTURES, TASKS, get_task
from ptxgym.tasks.operator import Operator

MAIN = [
    f"PTXBench-{operator}-{gpu}"
    for operator in ("GEMM", "MHAForward", "MHAForwardCausal", "MHABackward", "MHABackwardCausal")
    for gpu in ("H100", "B200")
]


def test_the_papers_ten_instances_are_there():
    assert set(MAIN) <= set(TASKS)


def test_variants_cover_head_dimensions_and_grouped_queries_on_both_architectures():
    attention = [name.split("-")[1] for name in MAIN if "MHA" in name]
    variants = {f"PTXBench-{op}-{gpu}-D{d}" for op in attention for gpu in ("H100", "B200") for d in (64, 96)}
    grouped = {f"PTXBench-{op}-{gpu}" for op in ("GQAForward", "GQAForwardCausal") for gpu in ("H100", "B200")}
    assert set(TASKS) == set(MAIN) | variants | grouped


def test_a_wrong_id_offers_the_nearest():
    with pytest.raises(UnknownTaskError, match="Did you mean 'PTXBench-MHAForward-H100'"):
        get_task("PTXBench-MHAFoward-H100")


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.id)
def test_probe_shapes_are_legal_for_the_usual_tilings_and_wrap_a_pipeline(task):
    for shape in task.probes:
        if "M" in shape:
            assert shape["M"] % 256 == 0
            assert shape["N"] % 256 == 0
            assert shape["K"] % 64 == 0
            assert shape["K"] // 64 >= 9
            assert len(set(shape.values())) == 3, "equal axes hide transposed indexing"
        else:
            assert shape["seqlen"] % 128 == 0
            assert shape["seqlen"] > 128
    if "seqlen" in task.workload:
        assert max(shape["seqlen"] for shape in task.probes) >= 5 * 128


def _independent_flops(operator: Operator, shape: dict[str, int]) -> int:
    """Counted by hand: two per multiply-add, half of the square when causal."""
    if operator.name == "GEMM":
        return 2 * shape["M"] * shape["N"] * shape["K"]
    products = 5 if "Backward" in operator.name else 2
    square = shape["seqlen"] * shape["seqlen"]
    if "Causal" in operator.name:
        square //= 2
    head_dim = int(operator.name.partition("-D")[2] or 128)
    return products * shape["batch"] * shape["heads"] * square * 2 * head_dim


def _independent_bytes(operator: Operator, shape: dict[str, int]) -> int:
    if operator.name == "GEMM":
        return 2 * (shape["M"] * shape["K"] + shape["N"] * shape["K"] + shape["M"] * shape["N"])
    head_dim = int(operator.name.partition("-D")[2] or 128)
    rows = shape["batch"] * shape["heads"] * shape["seqlen"]
    kv_rows = shape["batch"] * shape.get("kv_heads", shape["heads"]) * shape["seqlen"]
    if "Backward" in operator.name:
        return 2 * head_dim * (3 * rows + 2 * kv_rows + rows + 2 * kv_rows) + 4 * rows
    return 2 * head_dim * (2 * rows + 2 * kv_rows) + 4 * rows


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.id)
def test_flops_and_bytes_agree_with_a_count_by_hand(task):
    for shape in task.shapes():
        assert task.operator.flops(shape) == _independent_flops(task.operator, shape)
        assert task.operator.bytes(shape) == _independent_bytes(task.operator, shape)


def test_flops_are_the_papers_figures():
    assert get_task("PTXBench-GEMM-H100").operator.flops({"M": 8192, "N": 7168, "K": 5120}) == pytest.approx(
        6.013e11, rel=1e-3
    )
    mha = get_task("PTXBench-MHAForward-H100")
    assert mha.operator.flops(mha.workload) == pytest.approx(1.649e12, rel=1e-3)


@pytest.mark.parametrize(
    ("workload", "complaint"),
    [
        ({"M": 4096, "N": 4096}, "has M, N, K, not M, N"),
        ({"M": 256, "N": 256, "K": 64, "heads": 1}, "not M, N, K, heads"),
        ({"M": 256, "N": 256, "K": 0}, "K=0 is no positive integer"),
        ({"M": 256, "N": 256, "K": "a"}, "K='a' is no positive integer"),
        ({"M": 256, "N": 256, "K": True}, "K=True is no positive integer"),
    ],
)
def test_a_shape_that_cannot_be_is_told_when_the_task_is_made(workload, complaint):
    task = get_task("PTXBench-GEMM-H100")
    for changes in ({"workload": workload}, {"probes": (workload,)}):
        with pytest.raises(MisuseError, match=complaint):
            dataclasses.replace(task, **changes)


def test_signatures_are_the_contracts():
    assert get_task("PTXBench-GEMM-H100").operator.signature() == (
        'extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, '
        "int M, int N, int K, cudaStream_t stream);"
    )
    assert get_task("PTXBench-MHABackward-B200").operator.signature() == (
        'extern "C" cudaError_t run(const __nv_bfloat16* Q, const __nv_bfloat16* K, const __nv_bfloat16* V, '
        "const __nv_bfloat16* O, const __nv_bfloat16* dO, const float* LSE, __nv_bfloat16* dQ, __nv_bfloat16* dK, "
        "__nv_bfloat16* dV, float* workspace, int batch, int heads, int seqlen, cudaStream_t stream);"
    )
    assert "int heads, int kv_heads, int seqlen" in get_task("PTXBench-GQAForward-H100").operator.signature()


def test_architectures_have_the_rates_of_their_datasheets():
    rates = {a.gpu: a.tensor_flops_per_clock for a in ARCHITECTURES}
    assert rates["H100"] * 132 * 1.83e9 == pytest.approx(989.5e12, rel=0.01)
    assert rates["B200"] * 148 * 1.85e9 == pytest.approx(2.25e15, rel=0.01)
