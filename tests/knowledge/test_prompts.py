"""Prompts: complete, within budget, stable, and quoting what the pack holds."""

from __future__ import annotations

import base64
import importlib.util
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import knowledge
from knowledge.headers import MAIN
from ptxgym.tasks import TASKS, get_task

LIMITS = {"Hopper": 20_000, "Blackwell": 26_000}
ROOT = Path(__file__).parents[2]
CASES = [(task_id, variant) for task_id, task in TASKS.items() for variant in knowledge.variants(task)]


@pytest.mark.parametrize(("task_id", "variant"), CASES)
def test_the_full_prompt_is_complete_and_within_budget(task_id: str, variant: str) -> None:
    task = get_task(task_id)
    made = knowledge.prompt(task, "full", variant)
    wanted = ["statement", "parameters", "templates", "contracts", "examples", "schedule"]
    assert list(made.tokens) == wanted + ["hint"] * (variant != "base")
    assert all(count > 0 for count in made.tokens.values())
    assert made.total <= LIMITS[task.architecture.name]
    assert task.operator.signature() in made.text
    assert all(f"{name}={extent}" in made.text for name, extent in task.workload.items())


@pytest.mark.parametrize("task_id", TASKS)
def test_levels_add_to_each_other(task_id: str) -> None:
    texts = [knowledge.prompt(get_task(task_id), level).text for level in knowledge.LEVELS]
    assert all(longer.startswith(shorter) for shorter, longer in itertools.pairwise(texts))
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("task_id", TASKS)
def test_a_task_has_three_variants_or_more_and_their_texts_differ(task_id: str) -> None:
    task = get_task(task_id)
    names = knowledge.variants(task)
    assert names[0] == "base"
    assert len(names) == (3 if task.operator.name == "GEMM" else 4)
    assert len({knowledge.prompt(task, "none", name).text for name in names}) == len(names)


@pytest.mark.parametrize("architecture", MAIN)
def test_the_quotation_has_every_function(architecture: str) -> None:
    from tests.knowledge.headers import _FUNCTION

    text = knowledge.quote(architecture)
    for name in knowledge.headers.included(f"{MAIN[architecture]}.cuh"):
        for function in _FUNCTION.findall(knowledge.headers.header(name)):
            assert re.search(rf"\b{function}", text), function
    assert "#include" not in text
    assert "/" + "work" not in text


def test_a_prompt_for_an_h200_gives_its_limits() -> None:
    task = get_task("PTXBench-GEMM-H100")
    assert "4.8 TB/s" in knowledge.prompt(task, "parameters", gpu="H200").text
    assert "3.35 TB/s" in knowledge.prompt(task, "parameters").text


@pytest.mark.parametrize(
    "wrong",
    [{"level": "everything"}, {"variant": "nothing"}, {"gpu": "B200"}, {"level": "full", "variant": "pingpong"}],
)
def test_a_wrong_name_is_refused_with_the_right_ones(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        knowledge.prompt(get_task("PTXBench-GEMM-H100"), **wrong)  # type: ignore[arg-type]


def test_prompts_do_not_depend_on_hash_order() -> None:
    code = (
        "import hashlib, knowledge; from ptxgym.tasks import TASKS; print(hashlib.sha256(''.join("
        "knowledge.prompt(t, 'full', v).text for t in TASKS.values() for v in knowledge.variants(t)).encode())"
        ".hexdigest())"
    )
    hashes = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
                       env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"}).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(hashes) == 1


@pytest.mark.skipif(
    not (importlib.util.find_spec("dashscope") and importlib.util.find_spec("tiktoken")),
    reason="needs dashscope, which ships Qwen's table, and tiktoken",
)
@pytest.mark.parametrize("task_id", TASKS)
def test_the_estimate_is_near_qwens_count(task_id: str) -> None:
    import tiktoken  # type: ignore[import-not-found,unused-ignore]

    spec = importlib.util.find_spec("dashscope")
    assert spec is not None
    assert spec.origin is not None
    table = Path(spec.origin).parent / "resources" / "qwen.tiktoken"
    ranks = {base64.b64decode(t): int(n) for t, n in (line.split() for line in table.read_bytes().splitlines() if line)}
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        r"\s+(?!\S)|\s+"
    )
    qwen = tiktoken.Encoding("qwen", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    task = get_task(task_id)
    made = knowledge.prompt(task)
    exact = sum(len(qwen.encode(part.text)) for part in made.parts)
    assert made.total == pytest.approx(exact, rel=0.05)
    assert exact <= LIMITS[task.architecture.name]


def test_an_amalgamated_source_needs_no_header() -> None:
    source = (ROOT / "knowledge/hopper/examples/gemm.cu").read_text()
    whole = knowledge.amalgamate(source)
    assert "ptxgym/" not in re.sub(r"//.*", "", whole)
    assert whole.count("PTXGYM_DEVICE uint32_t shared_address") == 1
    assert whole.index("shared_address") < whole.index("mbarrier_init")
