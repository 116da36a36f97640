"""The policies without a language model."""

import gymnasium as gym
import pytest

import ptxgym  # noqa: F401 registers the environments
from baselines.fixit.sources import same_code
from baselines.mini_ptx_agent import PolicyDone, SetupError, extract_kernel
from baselines.scripted import EXAMPLES, MutatingModel, example, mutate, oracle, replay, submit
from ptxgym.tasks import TASKS


def env(instance="PTXBench-GEMM-H100"):
    return gym.make(instance, device="none", disable_env_checker=True)


def answers(policy, instance="PTXBench-GEMM-H100", seed=0, most=8):
    """The sources that a policy submits."""
    model, messages, sources = policy.model_for(env(instance), seed), [], []
    while len(sources) < most:
        try:
            answer = model.query(messages)
        except PolicyDone:
            break
        sources.append(extract_kernel(answer))
        messages += [answer.message, {"role": "user", "content": "feedback"}]
    return sources


def test_replay_submits_every_file_in_the_order_of_its_numbers(tmp_path):
    for number in (10, 9, 1):
        (tmp_path / f"kernel_v{number}.cu").write_text(f"// {number}")
    assert answers(replay(kernels=tmp_path)) == ["// 1", "// 9", "// 10"]


def test_replay_takes_an_instances_own_folder(tmp_path):
    (tmp_path / "PTXBench-GEMM-H100").mkdir()
    (tmp_path / "PTXBench-GEMM-H100" / "a.cu").write_text("// own")
    (tmp_path / "b.cu").write_text("// shared")
    assert answers(replay(kernels=tmp_path)) == ["// own"]
    assert answers(replay(kernels=tmp_path), "PTXBench-MHAForward-H100") == ["// shared"]


def test_replay_of_nothing_is_a_sentence(tmp_path):
    with pytest.raises(SetupError, match=r"no \.cu file"):
        replay(kernels=tmp_path)


def test_replay_submits_what_is_no_kernel_as_it_is(tmp_path):
    (tmp_path / "a.cu").write_text("```\nno kernel\n```")
    assert answers(replay(kernels=tmp_path)) == ["```\nno kernel\n```"]


def test_the_oracle_knows_every_example_by_its_instance():
    served = {instance for instance in TASKS if example(instance)}
    files = {path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*/*.cu")}
    assert "PTXBench-MHABackwardCausal-H100" in served
    assert len(served) >= 5
    for instance in served:
        (source,) = answers(oracle(), instance)
        assert any((EXAMPLES / file).read_text() == source for file in files)


def test_the_oracle_is_silent_where_there_is_no_example(tmp_path):
    with pytest.raises(PolicyDone, match="no example kernel for PTXBench-GEMM-H100"):
        oracle(kernels=tmp_path).model_for(env(), 0).query([])
    with pytest.raises(PolicyDone, match="no example kernel"):
        mutate(kernels=tmp_path).model_for(env(), 0).query([])


def test_mutations_differ_by_turn_and_seed_and_nothing_else():
    first = answers(mutate(), seed=1)
    assert first == answers(mutate(), seed=1)
    assert first != answers(mutate(), seed=2)
    assert len(set(first)) > len(first) // 2
    assert all(source != example("PTXBench-GEMM-H100") for source in first)


def test_a_mutant_is_other_code_and_keeps_its_comments():
    source = "// 1 of 2\nint a = 7; // 3\nint b = 8;\n/* 4\n5 */\n"
    for seed in range(200):
        mutant = MutatingModel(source, seed).query([]).source
        assert not same_code(mutant, source)
        for comment in ("// 1 of 2", "/* 4\n5 */"):
            assert mutant.count(comment) == 1


@pytest.mark.parametrize("policy", [oracle, mutate])
def test_a_run_in_which_no_instance_has_an_example_is_refused(policy, tmp_path, monkeypatch):
    policy().check(["PTXBench-GEMM-B200", "PTXBench-GEMM-H100"])
    with pytest.raises(SetupError, match="PTXBench-GEMM-B200 has no example kernel"):
        policy().check(["PTXBench-GEMM-B200"])
    with pytest.raises(SetupError, match=r"no \.cu file"):
        policy(kernels=tmp_path).check(["PTXBench-GEMM-H100"])
    monkeypatch.setattr("baselines.scripted.EXAMPLES", tmp_path)
    with pytest.raises(SetupError, match="part of a checkout"):
        policy(kernels=tmp_path).check(["PTXBench-GEMM-H100"])


@pytest.mark.parametrize("source", ["", "1", "a\n\n"])
def test_even_the_smallest_source_can_be_mutated(source):
    for seed in range(100):
        assert isinstance(MutatingModel(source, seed).query([]).source, str)


def test_a_submission_can_be_read_out_of_its_own_text():
    source = example("PTXBench-GEMM-H100")
    answer = submit(source)
    assert extract_kernel(type(answer)(answer.text)).strip() == source.strip()
