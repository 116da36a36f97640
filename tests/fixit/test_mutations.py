"""Mutations as text: where they apply, what they change, and what they leave alone."""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from baselines.fixit import mutations
from baselines.fixit.contracts import contracts
from baselines.fixit.idioms import INSTRUCTIONS, SourceMap
from baselines.fixit.mutations import MUTATIONS
from baselines.fixit.sources import changed_lines, kept_share
from baselines.tile_policy.kernel import make_source
from tests.fixit.doubles import ROOT

mutants = functools.cache(mutations.mutants)

KERNELS = [
    *(ROOT / "examples" / "kernels" / "hopper" / f"{name}.cu" for name in ("gemm", "mha_forward", "mha_backward")),
    *sorted((ROOT / "knowledge").rglob("examples/*.cu")),
]
CP_ASYNC = """
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
__global__ void copy(int n) {
    commit();
    wait<0>();
    __syncthreads();
}
"""


def of(source: str, name: str) -> list[tuple[str, str]]:
    """The changed lines of every mutant by this mutation."""
    return [
        tuple(text.strip() for text in changed_lines(source, mutant.source))
        for mutant in mutants(source)
        if mutant.mutation.name == name
    ]


def test_every_mutation_applies_somewhere():
    own_wrappers = make_source({})  # and its own descriptors and tensor maps
    sources = [path.read_text(encoding="utf-8") for path in KERNELS] + [own_wrappers, CP_ASYNC]
    applied = Counter(mutant.mutation.name for source in sources for mutant in mutants(source))
    assert not {mutation.name for mutation in MUTATIONS} - set(applied)


def test_mutations_name_contracts_and_findings_that_exist():
    assert all(number in contracts() for mutation in MUTATIONS for number in mutation.contracts)
    checked = {code for contract in contracts().values() for code in contract.codes}
    assert all(set(m.codes) & checked for m in MUTATIONS if m.codes and m.contracts)


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_a_mutant_is_a_small_change_and_no_two_are_the_same(path):
    source = path.read_text(encoding="utf-8")
    found = mutants(source)
    assert len({mutant.id for mutant in found}) == len(found) > 10
    for mutant in found:
        before, after = changed_lines(source, mutant.source)
        assert max(len(before.splitlines()), len(after.splitlines())) <= 3, mutant.mutation.name
        assert mutant.source.count("{") == mutant.source.count("}")
        assert kept_share(source, mutant.source) > 0.9


KERNEL = """
__device__ void mbarrier_wait(uint64_t* bar, uint32_t parity) {
    asm volatile("{ mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; }" ::"r"(bar), "r"(parity) : "memory");
}
__device__ void arrive(uint64_t* bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar)); }
__device__ void init(uint64_t* bar, int n) { asm("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(n)); }
#define WAIT_ALL() mbarrier_wait(bar, 0)
__global__ void kernel(uint64_t* bar, int steps) {
    // mbarrier_wait(bar, 0) is what a comment says
    init(bar, 1);
    init(bar, warps);
    if (threadIdx.x == 0) arrive(bar);  // one thread
    for (int i = 0; i < steps; ++i) mbarrier_wait(bar, i & 1);
    mbarrier_wait(bar, parity ^ 1);  // the last
    if (steps) arrive(bar); else mbarrier_wait(bar, 1);
    steps ? arrive(bar) : arrive(bar + 1);
}
"""


def test_a_dropped_statement_goes_with_its_condition_and_its_comment():
    assert of(KERNEL, "drop-arrive") == [("if (threadIdx.x == 0) arrive(bar);  // one thread", "")]
    dropped = of(KERNEL, "drop-wait")
    assert ("for (int i = 0; i < steps; ++i) mbarrier_wait(bar, i & 1);", "") in dropped
    assert ("mbarrier_wait(bar, parity ^ 1);  // the last", "") in dropped
    assert len(dropped) == 2  # not the macro, the comment, the definition, nor a branch that has an else


def test_the_other_parity_is_written_as_a_person_would():
    changes = {new for _, new in of(KERNEL, "other-parity")}
    assert "for (int i = 0; i < steps; ++i) mbarrier_wait(bar, (i & 1) ^ 1);" in changes
    assert "mbarrier_wait(bar, parity);  // the last" in changes
    assert "if (steps) arrive(bar); else mbarrier_wait(bar, 0);" in changes


def test_arrival_counts_are_changed_by_one_and_never_to_nothing():
    assert [new for _, new in of(KERNEL, "arrivals-too-many")] == ["init(bar, 2);", "init(bar, warps + 1);"]
    assert [new for _, new in of(KERNEL, "arrivals-too-few")] == ["init(bar, warps - 1);"]


def test_loops_run_one_step_more_or_less():
    assert [new for _, new in of(KERNEL, "one-step-more")] == [
        "for (int i = 0; i <= steps; ++i) mbarrier_wait(bar, i & 1);"
    ]
    assert of("void f() { for (int i = 0; i <= n; ++i) g<3>(i); }", "one-step-more") == []


def test_wrappers_are_known_by_their_instruction_not_by_their_name():
    found = SourceMap(KERNEL).wrappers
    assert (found["mbarrier_wait"], found["arrive"], found["init"]) == (
        {"mbarrier.wait"},
        {"mbarrier.arrive"},
        {"mbarrier.init"},
    )
    assert "kernel" not in found
    assert found["bulk_commit_group"] == {"bulk.commit"}  # of knowledge/include
    assert found["cluster_sync"] == {"cluster.barrier"}  # which calls both halves


def test_the_headers_have_a_wrapper_of_every_idiom_but_cp_async():
    kinds = set().union(*SourceMap("").wrappers.values())
    assert set(INSTRUCTIONS) - kinds <= {"cp.async.commit", "cp.async.wait"}


@pytest.mark.parametrize(
    "source", ["", "}{)(", "for (", 'f("', "mbarrier_wait(", "#define X \\\n arrive(bar);", "<<<>>>"]
)
def test_a_source_that_is_none_has_no_mutants(source):
    assert mutants(source) == []
