"""What enters a data set, and what does not."""

from __future__ import annotations

import json

import pytest

from baselines.fixit.build import BuildSettings, build
from baselines.fixit.dataset import Sample, check_form, read_samples, writing
from baselines.fixit.samples import answer_text, make_sample
from baselines.fixit.student import Student, load_student
from ptxgym.errors import MisuseError
from tests.fixit.doubles import D128, GEMM, KERNEL, TEMPLATE, evaluation, failure, reasoning, tokenizer, work_of


def changed(record, **fields):
    """A reasoning whose pair differs."""
    return record.model_copy(update={"pair": record.pair.model_copy(update=fields)})


def verified_as(record, **fields):
    verification = record.pair.verification.model_copy(update=fields)
    return changed(record, verification=verification)


def test_datasets_loads_it_with_both_splits(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    records = [reasoning(n, env) for n in range(5) for env in D128]
    built = build([work_of(tmp_path / "w", records)], tmp_path / "data", BuildSettings(validation_share=0.25))
    loaded = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(loaded[name]) for name in loaded} == {"train": 15, "validation": 5}
    assert loaded["train"].column_names == ["id", "messages", "metadata"]
    problems = {name: {row["problem"] for row in loaded[name]["metadata"]} for name in loaded}
    assert len(problems["validation"]) == 1
    assert not problems["train"] & problems["validation"]
    row = loaded["train"][0]
    assert [m["role"] for m in row["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert row["messages"][-1]["content"].startswith("<think>\nI look at the finding")
    assert len(row["metadata"]["verification"]) == 64
    card = (tmp_path / "data" / "README.md").read_text()
    assert "15 samples to train on, 5 to validate" in card
    assert f"| validation | {next(iter(problems['validation']))} | 5 | 5 |" in card
    assert json.loads((tmp_path / "data" / "build.json").read_text())["records"] == built.records == 20


def test_kernelgen_has_no_failing_kernel_in_view(tmp_path):
    work = work_of(tmp_path / "w", [reasoning(1, error_class="none"), reasoning(2)])
    record = build([work], tmp_path / "data", BuildSettings(method="kernelgen"))
    (sample,) = read_samples(tmp_path / "data" / "train.parquet")
    assert [m["role"] for m in sample.messages] == ["system", "user", "assistant"]
    assert (KERNEL % 1).strip() in sample.messages[-1]["content"]
    assert record.dropped == {"of the other method": 1}


GOOD = reasoning(3)
UNVERIFIED = {
    "a lie": verified_as(GOOD, evaluation=evaluation(GEMM, KERNEL % 3, "correctness")),
    "another kernel": changed(GOOD, kernel=KERNEL % 4),
    "another hash": verified_as(GOOD, evaluation=evaluation(GEMM, KERNEL % 4)),
    "another task": verified_as(GOOD, evaluation=evaluation(D128[0], KERNEL % 3)),
    "another task's record": verified_as(GOOD, task=D128[0]),
    "no target instructions": verified_as(GOOD, evaluation=evaluation(GEMM, KERNEL % 3, "instructions")),
    "the failing kernel": changed(GOOD, failure=failure(3).model_copy(update={"source": KERNEL % 3})),
    "another task's failure": changed(GOOD, failure=failure(3, D128[0])),
}


@pytest.mark.parametrize("name", UNVERIFIED)
def test_nothing_unverified_enters(name, tmp_path):
    work = work_of(tmp_path / "w", [UNVERIFIED[name], reasoning(9)])
    record = build([work], tmp_path / "data", BuildSettings())
    assert record.samples("train") == 1
    ((why, number),) = record.dropped.items()
    assert (why.startswith("unverified: "), number) == (True, 1)


def test_a_skipped_instruction_stage_is_no_pass(tmp_path):
    found = evaluation(GEMM, KERNEL % 3)
    stages = [
        s.model_copy(update={"status": "skipped", "reason": "not_requested"}) if s.stage == "instructions" else s
        for s in found.stages
    ]
    found = found.model_copy(update={"stages": tuple(stages)})
    assert found.status == "passed"
    with pytest.raises(MisuseError, match="none gives a sample"):
        build([work_of(tmp_path / "w", [verified_as(GOOD, evaluation=found)])], tmp_path / "d", BuildSettings())
    assert not (tmp_path / "d").exists()


def test_every_record_counts_once(tmp_path):
    works = [work_of(tmp_path / name, [reasoning(1), reasoning(2)]) for name in "ab"]
    record = build(works, tmp_path / "data", BuildSettings())
    assert (record.samples("train"), record.dropped) == (2, {"there twice": 2})


def test_a_rewrite_is_no_repair_where_a_share_is_asked_for(tmp_path):
    work = work_of(tmp_path / "w", [changed(reasoning(1), kept=0.2), changed(reasoning(2), kept=0.9)])
    assert build([work], tmp_path / "data", BuildSettings(min_kept=0.5)).samples("train") == 1


def test_a_line_that_a_crash_cut_off_is_passed_over_and_any_other_is_named(tmp_path):
    work = work_of(tmp_path / "w", [reasoning(1), reasoning(2)])
    lines = (work / "reasons.jsonl").read_bytes()
    (work / "reasons.jsonl").write_bytes(lines[:-100])
    assert build([work], tmp_path / "a", BuildSettings()).samples("train") == 1
    (work / "reasons.jsonl").write_bytes(b'{"version": 1}\n' + lines)
    with pytest.raises(MisuseError, match=r"reasons\.jsonl:1 is no Reasoning"):
        build([work], tmp_path / "b", BuildSettings())


def test_an_existing_data_set_is_not_replaced(tmp_path):
    work = work_of(tmp_path / "w", [reasoning(1)])
    build([work], tmp_path / "data", BuildSettings())
    with pytest.raises(MisuseError, match="is there already"):
        build([work], tmp_path / "data", BuildSettings())


def test_the_split_does_not_depend_on_the_order_of_the_records(tmp_path):
    records = [reasoning(n, env) for n in range(5) for env in D128]
    ids = []
    for name, order in (("a", records), ("b", records[::-1])):
        build([work_of(tmp_path / name, order)], tmp_path / f"d{name}", BuildSettings())
        ids.append([sample.id for sample in read_samples(tmp_path / f"d{name}" / "train.parquet")])
    assert ids[0] == ids[1]


# -- the student


def test_a_tokenizer_without_a_chat_template_is_a_sentence():
    with pytest.raises(MisuseError, match="has no chat template"):
        Student(tokenizer(None))


def test_a_tokenizer_is_loaded_from_a_folder_and_a_template_can_be_given(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    tokenizer(None).save_pretrained(tmp_path / "student")
    with pytest.raises(MisuseError, match="has no chat template"):
        load_student(str(tmp_path / "student"))
    (tmp_path / "template.jinja").write_text(TEMPLATE)
    student = load_student(str(tmp_path / "student"), tmp_path / "template.jinja")
    assert not student.objection(make_sample(reasoning(1)).messages)
    with pytest.raises(MisuseError, match="cannot be read"):
        load_student(str(tmp_path / "student"), tmp_path / "nowhere.jinja")
    with pytest.raises(MisuseError, match="There is no tokenizer in"):
        load_student(str(tmp_path / "nowhere"))


def test_a_template_that_refuses_a_system_message_is_a_sentence():
    refusing = "{%- if messages[0].role == 'system' %}{{ raise_exception('no system message') }}{%- endif %}"
    with pytest.raises(MisuseError, match="refuses a repair conversation: no system message"):
        Student(tokenizer(refusing))


def test_samples_over_the_students_context_are_dropped(tmp_path):
    long = reasoning(1, text=reasoning().text + " I think again." * 400)
    work = work_of(tmp_path / "w", [long, reasoning(2)])
    student = Student(tokenizer(), max_tokens=1000)
    assert student.count(make_sample(reasoning(2)).messages) <= 1000 < student.count(make_sample(long).messages)
    record = build([work], tmp_path / "data", BuildSettings(student=student))
    assert (record.samples("train"), record.dropped) == (1, {"over 1,000 tokens": 1})


def test_the_limit_is_exact():
    messages = make_sample(reasoning(1)).messages
    exact = Student(tokenizer()).count(messages)
    assert not Student(tokenizer(), exact).objection(messages)
    assert "tokens" in Student(tokenizer(), exact - 1).objection(messages)


STRIPPING = TEMPLATE.replace("m.content", "m.content.split('</think>')[-1].strip()")
SHOUTING = TEMPLATE.replace("+ m.content", "+ (m.content | upper)")
THINKING = TEMPLATE.replace("assistant\n'", "assistant\n<think>\n'")  # opens the thought for the model, as Qwen3.6 does


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (TEMPLATE, ""),
        (THINKING, ""),
        (STRIPPING, "changes the answer"),
        (SHOUTING, "changes the answer"),
        (TEMPLATE.replace("assistant\n'", "model\n'"), "does not end the prompt where the answer begins"),
    ],
)
def test_the_template_must_give_the_answer_back(template, why):
    found = Student(tokenizer(template)).objection(make_sample(reasoning(1)).messages)
    assert why in found
    assert bool(why) == bool(found)


def test_the_rendered_last_answer_decodes_to_exactly_the_message():
    student, sample = Student(tokenizer()), make_sample(reasoning(1))
    ids = tokenizer().apply_chat_template([dict(m) for m in sample.messages])["input_ids"]
    asked = tokenizer().apply_chat_template([dict(m) for m in sample.messages[:-1]], add_generation_prompt=True)
    asked = asked["input_ids"]
    assert not student.objection(sample.messages)
    assert ids[: len(asked)] == asked
    assert tokenizer().decode(ids[len(asked) :]) == answer_text(reasoning(1)) + "<|im_end|>\n"


def test_special_tokens_in_a_kernel_or_in_feedback_are_found():
    student = Student(tokenizer())
    messages = list(make_sample(reasoning(1)).messages)
    messages[3] = {"role": "user", "content": "told <|im_end|> so"}
    assert student.objection(messages) == "special token in the text: <|im_end|>"


def test_a_normaliser_that_changes_the_text_is_found():
    from tokenizers import normalizers

    fast = tokenizer(TEMPLATE + "{# a copy of its own #}")
    fast.backend_tokenizer.normalizer = normalizers.NFC()
    messages = list(make_sample(reasoning(1)).messages)
    assert not Student(fast).objection(messages)
    messages[-1] = {"role": "assistant", "content": messages[-1]["content"] + "// e\u0301"}
    assert Student(fast).objection(messages) == "the tokens do not give the answer back"


# -- the form


def test_a_parquet_of_another_schema_is_a_sentence(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "other.parquet"
    parquet.write_table(pyarrow.table({"id": ["a"], "text": ["b"]}), path)
    with pytest.raises(MisuseError, match="has columns id, text and no 'messages'"):
        check_form(path)
    parquet.write_table(pyarrow.table({"id": [1], "messages": [[]], "metadata": ["x"]}), path)
    with pytest.raises(MisuseError, match="column 'id' is int64, not string"):
        check_form(path)
    path.write_text("no parquet")
    with pytest.raises(MisuseError, match="cannot be read as Parquet"):
        check_form(path)
    with pytest.raises(MisuseError, match="cannot be read as Parquet"):
        check_form(tmp_path / "nowhere.parquet")


def test_row_groups_hold_all_rows_in_order(tmp_path):
    samples = [make_sample(reasoning(n)) for n in range(10)]
    with writing(tmp_path / "x.parquet", group_rows=4) as write:
        for sample in samples:
            write(sample)
    assert check_form(tmp_path / "x.parquet") == 10
    found = list(read_samples(tmp_path / "x.parquet"))
    assert [s.id for s in found] == [s.id for s in samples]
    assert isinstance(found[0], Sample)
    assert [dict(m) for m in found[0].messages] == [dict(m) for m in samples[0].messages]
