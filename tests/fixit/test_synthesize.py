"""Contract pairs from a passing kernel: compiled, simulated, explained and built, with no teacher."""

from __future__ import annotations

import pytest

from baselines.fixit.build import BuildSettings, build
from baselines.fixit.dataset import read_samples
from baselines.fixit.reason import ReasonSettings, reason
from baselines.fixit.records import Twin
from baselines.fixit.synthesize import (
    Parent,
    SynthesizeSettings,
    parents_from_examples,
    parents_from_files,
    parents_from_runs,
    synthesize,
)
from baselines.fixit.verify import objection
from ptxgym.errors import MisuseError
from ptxgym.runs.records import read_lines
from tests.fixit.doubles import GEMM, KERNEL
from tests.fixit.small import SMALL, register
from tests.fixit.test_mine import run_of, turn
from tests.fixit.test_repair import GOOD, NO_KERNEL

SIMULATOR = {"device": "simulator"}


@pytest.fixture(scope="module", autouse=True)
def _small_task():
    register()


def twins(work) -> list[Twin]:
    return list(read_lines(work / "twins.jsonl", Twin))


def test_twins_are_judged_explained_and_built(tmp_path):
    work, chosen = tmp_path / "work", ("drop-proxy-fence", "bytes-too-many", "drop-init-fence")
    parents = [Parent(SMALL, GOOD, "gemm.cu")]
    settings = SynthesizeSettings(chosen, env_settings=SIMULATOR)
    synthesize(work, parents, settings)
    found = {twin.mutation: twin for twin in twins(work)}
    assert {name: twin.outcome for name, twin in found.items()} == {
        "drop-proxy-fence": "pair",
        "bytes-too-many": "pair",
        "drop-init-fence": "harmless",  # a barrier of the block orders it, where there is no cluster
    }
    fence, bytes_ = found["drop-proxy-fence"].pair, found["bytes-too-many"].pair
    assert (fence.broken.contract, fence.broken.code, fence.error_class) == ("12", "missing-proxy-fence", "finding")
    assert (bytes_.broken.contract, bytes_.broken.code, bytes_.error_class) == ("16", "deadlock", "timeout")
    assert bytes_.broken.expected
    assert "STAGE_BYTES + 16" in bytes_.broken.after
    assert "mbarrier_arrive_expect_tx" in GOOD.splitlines()[bytes_.broken.line - 1] or bytes_.broken.line
    for pair in (fence, bytes_):
        assert not objection(pair)
        assert pair.kernel == GOOD
        assert pair.failure.source != GOOD

    assert synthesize(work, parents, settings).before == 3  # nothing is judged twice
    assert len(twins(work)) == 3

    reason(work, None, ReasonSettings())
    record = build([work], tmp_path / "data", BuildSettings())
    assert (record.samples("train"), record.dropped) == (2, {})
    samples = {s.metadata["contract"]: s for s in read_samples(tmp_path / "data" / "train.parquet")}
    assert samples["12"].metadata["finding"] == "missing-proxy-fence"
    answer = samples["16"].messages[-1]["content"]
    assert "arrive_expect_tx with all bytes that will land" in answer
    assert "STAGE_BYTES + 16" in answer
    assert "| 12 | 1 |" in (tmp_path / "data" / "README.md").read_text()


def test_a_kernel_that_does_not_pass_has_no_twins(tmp_path):
    settings = SynthesizeSettings(("bytes-too-many",), env_settings=SIMULATOR)
    synthesize(tmp_path, [Parent(SMALL, NO_KERNEL + GOOD, "broken.cu")], settings)
    (twin,) = twins(tmp_path)
    assert (twin.outcome, twin.pair) == ("discarded", None)
    assert twin.status.startswith("parent: ")


def test_a_machine_that_cannot_judge_leaves_all_open(tmp_path):
    settings = SynthesizeSettings(("bytes-too-many",), env_settings={"device": "none"})
    progress = synthesize(tmp_path, [Parent(SMALL, GOOD, "gemm.cu")], settings)
    assert (progress.finished, len(progress.left_open)) == (0, 1)


def test_a_limit_takes_one_of_each_mutation_before_a_second(tmp_path):
    from baselines.fixit.mutations import mutants
    from baselines.fixit.synthesize import _some

    found = mutants(GOOD)
    names = [mutant.mutation.name for mutant in _some(found, SynthesizeSettings(limit=12))]
    assert len(set(names)) == 12
    assert len(_some(found, SynthesizeSettings(limit=10_000))) == len(found)
    assert names != [mutant.mutation.name for mutant in _some(found, SynthesizeSettings(limit=12, seed=1))]


def test_parents_are_turns_that_passed_each_once(tmp_path):
    turns = [turn(1, 0, "incorrect", KERNEL % 1), turn(2, 0, "passed", KERNEL % 2), turn(1, 1, "passed", KERNEL % 2)]
    run = run_of(tmp_path / "run", turns)
    assert [(p.env, p.source) for p in parents_from_runs([run])] == [(GEMM, KERNEL % 2)]


def test_wrong_names_are_sentences(tmp_path):
    with pytest.raises(MisuseError, match="no mutation 'drop-everything'"):
        synthesize(tmp_path, [], SynthesizeSettings(("drop-everything",)))
    with pytest.raises(MisuseError, match="cannot be read"):
        list(parents_from_files([tmp_path / "nothing.cu"], GEMM))


def test_examples_of_a_package_without_a_checkout_are_a_sentence(monkeypatch):
    monkeypatch.setattr("baselines.scripted.example", lambda env: None)
    with pytest.raises(MisuseError, match="part of a checkout"):
        parents_from_examples()
