"""A real training of a tiny model: what carries loss, what is learned, resumed, merged, served and played with."""

import json
import math
import socket
from urllib.parse import urlsplit

import pytest

pytest.importorskip("trl", reason="the extra `train` is not installed")

import gymnasium as gym
import openai
import torch
from typer.testing import CliRunner

import ptxgym  # noqa: F401
from baselines.fixit import serve, train_adapter
from baselines.fixit.commands import app
from baselines.fixit.train import make_trainer, spread, train
from baselines.fixit.train_data import load_tokenizer, read_parquet
from baselines.fixit.train_records import Planned, TrainingRecord, TrainSettings
from baselines.mini_ptx_agent import EndpointModel, MiniPTXAgent, ModelSettings
from ptxgym.errors import InfrastructureError, MisuseError

from .train_doubles import ANSWER, FEEDBACK, KERNEL, OTHER, conversation, write_parquet, write_tiny_model

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")  # between transformers and peft

SETTINGS = TrainSettings(rank=16, alpha=32, epochs=25, learning_rate=1e-2, checkpoint_every=30)


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    """One thread: spinning ones take forty times as long on a model this small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("data") / "train.parquet", [conversation()] * 4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, model, data):
    """A training that learns one answer by heart, and its record."""
    out = tmp_path_factory.mktemp("trained") / "out"
    return out, train(data, str(model), out, SETTINGS, validation=data)


def test_only_the_last_answer_carries_loss_as_the_collator_hands_it_over(model, data, tmp_path):
    tokenizer = load_tokenizer(str(model))
    trainer = make_trainer(read_parquet(data), None, str(model), tokenizer, tmp_path, TrainSettings())
    batch = next(iter(trainer.get_train_dataloader()))
    for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
        carried = labels != -100
        assert tokenizer.decode(ids[carried]) == f"{ANSWER}<|im_end|>\n"
        assert torch.equal(ids[carried], labels[carried])
        assert FEEDBACK in tokenizer.decode(ids[~carried])
        assert OTHER in tokenizer.decode(ids[~carried]), "the failed kernel is seen, not learned"
    assert batch["labels"].shape[0] == 2


def test_the_optimiser_is_the_papers(model, data, tmp_path):
    trainer = make_trainer(
        read_parquet(data), None, str(model), load_tokenizer(str(model)), tmp_path, TrainSettings(epochs=1)
    )
    trainer.create_optimizer_and_scheduler(num_training_steps=10)
    (group, *_) = trainer.optimizer.param_groups
    assert (group["lr"], group["betas"], group["eps"]) == (4.65e-4, (0.9, 0.95), 1e-8)
    assert trainer.lr_scheduler.get_last_lr()[0] == 4.65e-4
    config = trainer.model.peft_config["default"]
    assert config.r == 32
    assert {
        name.split(".lora_")[0].rpartition(".")[2] for name, p in trainer.model.named_parameters() if p.requires_grad
    } == {
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj"),
    }


def test_the_loss_falls_and_the_record_says_so(trained, data):
    out, record = trained
    first, last = record.fall
    assert last < first / 4
    assert record == TrainingRecord.model_validate_json((out / "training.json").read_bytes())
    assert [point.step for point in record.losses] == list(range(1, 51))
    assert len(record.validation_losses) == 25
    assert record.validation_losses[-1].loss < record.validation_losses[0].loss
    assert (record.data.rows, record.data.file, record.steps) == (4, "train.parquet", 50)
    assert record.data.loss_tokens < record.data.tokens <= 4 * record.data.longest
    assert 0 < record.trainable_parameters < record.parameters
    assert record.seconds_per_step > 0
    assert record.peak_memory_bytes > 0
    assert record.software["trl"]
    assert not list(out.rglob("adapter/*.bin")), "no pickle leaves a training"


def test_a_training_that_was_broken_off_ends_as_if_it_had_not_been(model, tmp_path):
    rows = [conversation(f"<think>{word}</think>{KERNEL}") for word in ("wait", "fence", "parity", "stage")]
    data = write_parquet(tmp_path / "rows.parquet", rows)
    settings = SETTINGS.model_copy(update={"epochs": 3.0, "checkpoint_every": 4})
    straight = train(data, str(model), tmp_path / "straight", settings)

    class KilledError(Exception):
        pass

    def kill(step, steps, loss):
        if step == 5:
            raise KilledError

    out = tmp_path / "broken"
    with pytest.raises(KilledError):
        train(data, str(model), out, settings, watch=kill)
    with pytest.raises(MisuseError, match="holds a training"):
        train(data, str(model), out, settings)
    with pytest.raises(MisuseError, match=r"settings.rank 16, not 8; a resumed training keeps"):
        train(data, str(model), out, settings.model_copy(update={"rank": 8}), resume=True)
    other = write_parquet(tmp_path / "other.parquet", [conversation("Another answer.")] * 4)
    with pytest.raises(MisuseError, match=r"data\."):
        train(other, str(model), out, settings, resume=True)
    assert not (out / "training.json").exists()

    seen = []
    resumed = train(data, str(model), out, settings, resume=True, watch=lambda step, *_: seen.append(step))
    assert (resumed.resumed_from, seen) == (4, [5, 6])
    assert [point.step for point in resumed.losses] == [1, 2, 3, 4, 5, 6]
    for one, other_one in zip(straight.losses, resumed.losses, strict=True):
        assert math.isclose(one.loss, other_one.loss, rel_tol=1e-4)
    assert Planned.model_validate_json((out / "settings.json").read_bytes()).settings == settings


def test_a_finished_training_is_not_done_again(trained, model, data):
    out, record = trained
    before = (out / "adapter" / "adapter_model.safetensors").stat().st_mtime_ns

    def never(*told):
        raise AssertionError("a step was made")

    assert train(data, str(model), out, SETTINGS, validation=data, resume=True, watch=never) == record
    assert (out / "adapter" / "adapter_model.safetensors").stat().st_mtime_ns == before


def test_too_little_memory_is_a_sentence(model, data, tmp_path):
    def full(*told):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nMore words.")

    with pytest.raises(InfrastructureError, match=r"Tried to allocate 20.00 GiB\. Fewer rows at a time"):
        train(data, str(model), tmp_path / "out", SETTINGS, watch=full)


def test_the_merged_model_answers_as_the_adapter_does(trained, tmp_path):
    out, _ = trained
    adapted, tokenizer = train_adapter.load(out / "adapter")
    merged, _ = train_adapter.load(train_adapter.merge(out / "adapter", tmp_path / "merged"))
    base, _ = train_adapter.load(train_adapter.base_of(out / "adapter"))
    ids = tokenizer.apply_chat_template(conversation(), return_tensors="pt", return_dict=True)["input_ids"]
    difference, largest = train_adapter.largest_difference(adapted, merged, ids)
    assert difference < 1e-4 * largest
    assert train_adapter.largest_difference(adapted, base, ids)[0] > 0.1 * largest, "the adapter does something"
    with pytest.raises(MisuseError, match="exists"):
        train_adapter.merge(out / "adapter", tmp_path / "merged")


def test_the_adapter_serves_and_an_agent_plays_a_turn_against_it(trained):
    out, _ = trained
    model, tokenizer = train_adapter.load(out / "adapter")
    prompt, answer = conversation()[:-1], conversation()[-1]["content"]
    with serve.running(serve.Served(model, tokenizer, "tiny-s1")) as url:
        for stream in (True, False):
            settings = ModelSettings(name="tiny-s1", stream=stream, max_tokens=200, request={"temperature": 0})
            reply = EndpointModel(settings, url).query(prompt)
            assert (reply.reasoning, reply.finish) == ("The wait is missing.", "stop")
            assert reply.text.strip() == answer.partition("</think>")[2].strip()
            assert reply.usage.counted
            assert reply.usage.completion_tokens > 20

        env = gym.make("PTXBench-GEMM-H100", device="none", max_turns=1)
        agent = MiniPTXAgent(env, EndpointModel(settings, url), save=(turns := []).append, messages=prompt)
        assert agent.run().reason == "turn_budget"
        assert turns[0].source.strip() == KERNEL, "what was learned is what is submitted"
        assert turns[0].info["evaluation"].stage("compile").status == "failed", "and is judged"


def test_requests_that_cannot_be_obeyed_are_refused_in_the_dialects_own_words(trained):
    out, _ = trained
    model, tokenizer = train_adapter.load(out / "adapter")
    hello = [{"role": "user", "content": "Hello"}]
    with serve.running(serve.Served(model, tokenizer, "tiny")) as url:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
        assert [model.id for model in client.models.list()] == ["tiny"]
        cut = client.chat.completions.create(model="tiny", messages=hello, max_tokens=3)
        assert (cut.choices[0].finish_reason, cut.usage.completion_tokens) == ("length", 3)
        asked = {"model": "tiny", "messages": hello, "max_tokens": 20, "seed": 3, "temperature": 2.0}
        texts = {client.chat.completions.create(**asked).choices[0].message.content for _ in range(2)}
        assert len(texts) == 1, "a seed decides"
        long = [{"role": "user", "content": "word " * 5000}]
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError, match="context length") as refused:
                client.chat.completions.create(model="tiny", messages=long, stream=stream)
            assert refused.value.code == "context_length_exceeded"
        with pytest.raises(openai.BadRequestError, match="n: "):
            client.chat.completions.create(model="tiny", messages=hello, n=2)
        with pytest.raises(openai.BadRequestError, match="messages"):
            client.chat.completions.create(model="tiny", messages=[])
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="tiny", input="x")


def test_the_commands_train_and_merge(model, data, tmp_path):
    command = CliRunner()
    out = tmp_path / "out"
    asked = ["train", str(data), "--model", str(model), "--out", str(out), "--max-steps", "2", "--rank", "4"]
    trained = command.invoke(app, asked)
    assert trained.exit_code == 0, trained.output
    assert trained.stdout.startswith("2 steps, loss ")
    assert "step 2 of 2" in trained.stderr
    merged = command.invoke(app, ["merge", str(out / "adapter"), "--out", str(tmp_path / "merged")])
    assert merged.exit_code == 0, merged.output
    assert (tmp_path / "merged" / "model.safetensors").exists()
    assert (tmp_path / "merged" / "chat_template.jinja").exists()
    wrong = command.invoke(app, [*asked[:-1], "0"])
    assert isinstance(wrong.exception, MisuseError)
    assert "--rank" in str(wrong.exception)
    again = command.invoke(app, [*asked, "--resume", "--json"])
    assert TrainingRecord.model_validate_json(again.stdout).steps == 2


def test_a_client_that_goes_away_in_the_middle_holds_nobody_up(trained):
    out, _ = trained
    model, tokenizer = train_adapter.load(out / "adapter")
    with serve.running(serve.Served(model, tokenizer, "tiny")) as url:
        body = json.dumps({"messages": [{"role": "user", "content": "x\n" * 50}], "stream": True, "max_tokens": 3000})
        address = urlsplit(url)
        for _ in range(2):
            with socket.create_connection((address.hostname, address.port)) as rude:
                head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
                rude.sendall((head + body).encode())
                assert rude.recv(12) == b"HTTP/1.1 200"
        answer = EndpointModel(ModelSettings(name="tiny", max_tokens=5), url).query(conversation()[:2])
        assert answer.usage.completion_tokens == 5


@pytest.mark.parametrize(
    ("batch", "micro", "processes", "expected"),
    [(2, 0, 1, (2, 1)), (2, 1, 1, (1, 2)), (8, 2, 2, (2, 2)), (2, 0, 2, (1, 1))],
)
def test_a_batch_is_spread_over_gpus_and_time(batch, micro, processes, expected):
    assert spread(batch, micro, processes) == expected
    assert expected[0] * expected[1] * processes == batch


@pytest.mark.parametrize(("batch", "micro", "processes"), [(2, 0, 3), (2, 0, 4), (6, 4, 1)])
def test_a_batch_that_cannot_be_spread_is_refused(batch, micro, processes):
    with pytest.raises(MisuseError, match="batch"):
        spread(batch, micro, processes)


def test_an_adapter_names_its_base_or_is_refused(tmp_path):
    with pytest.raises(MisuseError, match="holds no adapter"):
        train_adapter.base_of(tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 8}))
    with pytest.raises(MisuseError, match="does not name the model"):
        train_adapter.base_of(tmp_path)
    with pytest.raises(MisuseError, match="holds no adapter"):
        train_adapter.merge(tmp_path / "nowhere", tmp_path / "out")
