"""What is refused before anything is trained, and the sentence that says why."""

import pytest

pytest.importorskip("trl", reason="the extra `train` is not installed")

from baselines.fixit import train as training
from baselines.fixit.train_data import load_tokenizer, measure, read_parquet
from ptxgym.errors import MissingToolError, MisuseError

from .train_doubles import TEMPLATE, conversation, tiny_tokenizer, write_parquet


def test_rows_are_prompt_and_answer(tmp_path):
    data = read_parquet(write_parquet(tmp_path / "d.parquet", [conversation(), conversation("Another.")]))
    assert [row.id for row in data.rows] == ["row-0", "row-1"]
    assert data.rows[1].prompt == conversation()[:-1]
    assert data.rows[1].answer == {"role": "assistant", "content": "Another."}
    assert len(data.sha256) == 64


def test_more_fields_in_a_message_do_no_harm(tmp_path):
    masked = [[{**message, "step_loss_mask": 1} for message in conversation()]]
    data = read_parquet(write_parquet(tmp_path / "d.parquet", masked))
    assert data.rows[0].prompt == conversation()[:-1]


@pytest.mark.parametrize(
    ("conversations", "columns", "complaint"),
    [
        ([conversation()], {"metadata": None}, "metadata is missing"),
        ([conversation()], {"id": None, "text": ["x"]}, "id is missing"),
        ([conversation()], {"messages": ["not a list"]}, "should be a list of structs with role and content"),
        ([conversation()], {"messages": [[{"from": "human", "value": "x"}]]}, "should be a list of structs"),
        ([], {"messages": [conversation()][:0]}, r"should be a list of structs|has no row"),
        ([conversation()[:-1]], {}, "does not end with an assistant's answer"),
        ([conversation()[-1:]], {}, "does not end with an assistant's answer"),
        ([conversation(" \n")], {}, "does not end with an assistant's answer"),
        (
            [[{"role": "user", "content": None}]],
            {"metadata": [1]},
            r"should be a list of structs|without role or content",
        ),
    ],
)
def test_a_parquet_of_another_schema_is_refused(tmp_path, conversations, columns, complaint):
    with pytest.raises(MisuseError, match=complaint):
        read_parquet(write_parquet(tmp_path / "d.parquet", conversations, **columns))


def test_what_is_no_parquet_is_refused(tmp_path):
    with pytest.raises(MisuseError, match="There is no file"):
        read_parquet(tmp_path / "nowhere.parquet")
    (tmp_path / "d.parquet").write_text("id,messages\n")
    with pytest.raises(MisuseError, match="is no Parquet file"):
        read_parquet(tmp_path / "d.parquet")


def test_a_tokenizer_without_a_chat_template_is_refused(tmp_path):
    tiny_tokenizer(template=None).save_pretrained(tmp_path / "base")
    with pytest.raises(MisuseError, match="has no chat template"):
        load_tokenizer(str(tmp_path / "base"))
    with pytest.raises(MisuseError, match="cannot be loaded"):
        load_tokenizer(str(tmp_path / "nowhere"))


def test_lengths_count_the_answer_apart(tmp_path):
    tokenizer = tiny_tokenizer()
    data = read_parquet(write_parquet(tmp_path / "d.parquet", [conversation(), conversation("Yes.")]))
    found = measure(data.rows, tokenizer, 10_000)
    answers = sum(len(tokenizer(f"{row.answer['content']}<|im_end|>\n")["input_ids"]) for row in data.rows)
    assert found.loss_tokens == answers
    assert found.longest < found.tokens < 2 * found.longest


def test_rows_that_would_be_cut_are_counted_and_refused(tmp_path):
    data = read_parquet(write_parquet(tmp_path / "d.parquet", [conversation("Yes."), conversation("word " * 300)]))
    with pytest.raises(MisuseError, match=r"1 of 2 rows have more than 200 tokens.*row-1.*lose their answers"):
        measure(data.rows, tiny_tokenizer(), 200)


def test_a_template_that_rewrites_the_prompt_is_refused(tmp_path):
    """Such a template would put the loss elsewhere than on the answer, and the trainer would only warn."""
    turned = "{{- '[' ~ (messages | length) ~ ']' }}" + TEMPLATE
    data = read_parquet(write_parquet(tmp_path / "d.parquet", [conversation()]))
    with pytest.raises(MisuseError, match=r"row-0.*writes the prompt differently"):
        measure(data.rows, tiny_tokenizer(turned), 10_000)


def test_rows_that_the_trainer_drops_are_missed(tmp_path):
    data = read_parquet(write_parquet(tmp_path / "d.parquet", [conversation()] * 3))
    with pytest.raises(MisuseError, match="has 3 rows, and 2 of them would be trained"):
        training._check_nothing_lost({"labels": [[-100, 5], [7], [-100, -100]]}, data)
    training._check_nothing_lost({"labels": [[-100, 5], [7], [8]]}, data)


def test_without_the_extra_its_install_command_is_said(monkeypatch, tmp_path):
    def find(name):
        return None if name == "trl" else object()

    monkeypatch.setattr(training.importlib.util, "find_spec", find)
    with pytest.raises(MissingToolError, match=r"trl was not found. Install it with: pip install 'ptxgym\[train\]'"):
        training.train(tmp_path / "d.parquet", "model", tmp_path / "out")
