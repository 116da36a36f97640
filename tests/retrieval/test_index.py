"""Which failures are found, and by what rule."""

import math

import pytest

pytest.importorskip("bm25s", reason="the extra `retrieval` is not installed")
pytest.importorskip("pyarrow", reason="the extra `retrieval` is not installed")

from baselines.retrieval import Index, Repair, read_repairs
from baselines.retrieval import index as module
from baselines.retrieval.index import tokens
from ptxgym.errors import MissingToolError, MisuseError
from tests.fixit.train_doubles import write_parquet

from .doubles import BROKEN, FIXED, kernel, row, write_repairs


def made(*failing: str) -> list[Repair]:
    return [Repair(f"r{n}", "", source, "", (), "") for n, source in enumerate(failing)]


def test_a_mnemonic_is_one_word_and_comments_are_none():
    source = 'asm("cp.async.bulk.tensor.2d.shared::cluster.global [%0], x;"); // wgmma.fence\n/* setmaxnreg */ Foo::bar'
    assert tokens(source) == ["asm", "cp.async.bulk.tensor.2d.shared::cluster.global", "foo::bar"]


def test_scores_are_bm25_with_the_papers_constants():
    documents = ["alpha alpha beta", "beta gamma delta delta delta epsilon", "zeta"]
    query = "alpha delta beta beta unknown"
    lengths = [len(document.split()) for document in documents]
    mean = sum(lengths) / len(lengths)

    def score(document: str) -> float:
        words, total = document.split(), 0.0
        for word in {"alpha", "delta", "beta"}:  # every word of the query once
            have = sum(word in other.split() for other in documents)
            idf = math.log(1 + (len(documents) - have + 0.5) / (have + 0.5))
            count = words.count(word)
            total += idf * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(words) / mean))
        return total

    hits = Index(made(*documents)).nearest(query)
    expected = sorted(((score(d), f"r{n}") for n, d in enumerate(documents) if score(d) > 0), reverse=True)
    assert [hit.repair.id for hit in hits] == [name for _, name in expected]
    assert [hit.score for hit in hits] == pytest.approx([value for value, _ in expected], rel=1e-5)


def test_what_shares_nothing_is_not_found():
    index = Index(made("alpha beta", "gamma delta"))
    assert index.nearest("omega psi") == []
    assert index.nearest("") == []
    assert index.nearest("// alpha") == []
    assert [hit.repair.id for hit in index.nearest("delta")] == ["r1"]


def test_no_more_than_asked_and_only_what_is_allowed_and_ties_in_order():
    index = Index(made("alpha", "alpha", "alpha", "alpha", "beta"))
    assert [hit.repair.id for hit in index.nearest("alpha", 3)] == ["r0", "r1", "r2"]
    assert [hit.repair.id for hit in index.nearest("alpha", 3, lambda r: r.id != "r0")] == ["r1", "r2", "r3"]


def test_the_failure_at_hand_finds_its_own_repair(tmp_path):
    index = Index(read_repairs(write_repairs(tmp_path / "d.parquet")).repairs)
    for name, body in BROKEN.items():
        assert index.nearest(kernel(f"int renamed; {body}"))[0].repair.id == name


def test_repairs_come_out_of_a_data_set_whole(tmp_path):
    found = read_repairs(write_repairs(tmp_path / "d.parquet"))
    for repair in found.repairs:
        assert repair.failing == kernel(BROKEN[repair.id])
        assert repair.fixed == kernel(FIXED[repair.id])
        assert repair.notes == ("Failure: INCORRECT: C is wrong.", f"Repair: added: mended_{repair.id}();")
        assert (repair.problem, repair.feedback) == ("PTXBench-GEMM-H100", "INCORRECT: C is wrong.")


def test_the_data_sets_own_notes_come_before_the_reasoning(tmp_path):
    metadata = [
        {"env": "x", "notes": "Wait\nfor it.\n\nThen go."},
        {"env": "x", "notes": ""},
        {"env": "x", "notes": None},
    ]
    found = read_repairs(write_repairs(tmp_path / "d.parquet", metadata=metadata)).repairs
    assert found[0].notes == ("Wait for it.", "Then go.")
    assert found[1].notes[-1] == "Repair: added: mended_wait();"


def test_a_large_change_is_told_by_the_end_of_the_reasoning(tmp_path):
    thought = "I look.\n\n```cpp\ncode\n```\n\n" + "A sentence of some length. " * 60 + "\n\n```cpp\nmore code\n```"
    long = [*row("wait", thought)]
    long[-1]["content"] = long[-1]["content"].replace("mended_wait();", "mended_wait();\n" * 40)
    (failure, note) = read_repairs(write_parquet(tmp_path / "l.parquet", [long])).repairs[0].notes
    assert failure == "Failure: INCORRECT: C is wrong."
    assert note.startswith("Repair: A sentence of some length.")
    assert note.endswith("length.")
    assert len(note) <= 600


def test_the_failed_stage_is_what_a_note_says_of_the_feedback(tmp_path):
    told = row("wait")
    told[-2]["content"] = "TIMEOUT: no end.\ncompile: gemm: 168 registers\nmemory: failed. kernel.cu:9: deadlock"
    (failure, _) = read_repairs(write_parquet(tmp_path / "d.parquet", [told])).repairs[0].notes
    assert failure == "Failure: memory: failed. kernel.cu:9: deadlock"


def test_rows_without_a_failing_kernel_are_left_out_and_a_set_of_them_is_refused(tmp_path):
    kernelgen = [*row("wait")[:2], row("wait")[-1]]
    mixed = write_parquet(tmp_path / "m.parquet", [kernelgen, row("wait")])
    assert [repair.id for repair in read_repairs(mixed).repairs] == ["row-1"]
    with pytest.raises(MisuseError, match="holds no repair"):
        read_repairs(write_parquet(tmp_path / "k.parquet", [kernelgen]))


@pytest.mark.parametrize("columns", [{"metadata": None}, {"messages": None}])
def test_another_schema_is_refused(tmp_path, columns):
    with pytest.raises(MisuseError, match="is no data set of repairs"):
        read_repairs(write_repairs(tmp_path / "d.parquet", **columns))


def test_what_is_no_data_set_is_refused(tmp_path):
    with pytest.raises(MisuseError, match="There is no file"):
        read_repairs(tmp_path / "nowhere.parquet")
    (tmp_path / "d.parquet").write_text("x")
    with pytest.raises(MisuseError, match="is no data set"):
        read_repairs(tmp_path / "d.parquet")


def test_without_the_extra_its_install_command_is_said(monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match=r"pip install 'ptxgym\[retrieval\]'"):
        Index(made("alpha"))
