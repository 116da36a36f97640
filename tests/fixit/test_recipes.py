"""Recipes give the counts that they declare, and say what is missing."""

from __future__ import annotations

from collections import Counter

import pytest

from baselines.fixit.build import BuildSettings, build, gather
from baselines.fixit.recipe import Recipe, choose, differences, lacks, load_recipe, shipped
from ptxgym.errors import MisuseError
from tests.fixit.doubles import D64, D96, D128, reasoning, work_of

SIZES = {"s0": 494, "s1": 158, "s2": 259, "s3": 406, "s4": 170, "s5": 258, "s6": 258}


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Samples of every problem, class and teacher that a shipped recipe takes, and of others."""
    records = [
        reasoning(n, env, error_class, teacher=teacher)
        for env in D128 + D64
        for n in range(25)
        for error_class in ("memory_error", "incorrect", "compile_error")
        for teacher in ("glm-5.2", "qwen3.6-27b")
    ]
    records += [reasoning(n, env, "none") for env in D128 + D64 for n in range(70)]
    records += [reasoning(n, env) for env in D96 for n in range(3)] + [reasoning(0, "PTXBench-GEMM-H100")]
    return work_of(tmp_path_factory.mktemp("pool"), records)


def test_all_recipes_of_the_paper_are_there_with_their_sizes():
    assert {name: load_recipe(name).size for name in shipped()} == SIZES


@pytest.mark.parametrize("name", SIZES)
def test_a_recipe_gives_as_many_samples_as_it_declares(name, pool, tmp_path):
    recipe = load_recipe(name)
    record = build([pool], tmp_path / "data", BuildSettings(recipe=recipe))
    assert record.samples("train") == SIZES[name]
    trained = Counter({c.problem: 0 for c in record.counts if c.split == "train"})
    for count in record.counts:
        if count.split == "train":
            trained[count.problem] += count.samples
            assert count.reasoning == recipe.reasoning
    assert set(trained) == set(recipe.problems)
    assert {c.problem for c in record.counts if c.split == "validation"} <= set(recipe.validation)
    if name == "s4":
        assert sorted(trained.values()) == [21] * 6 + [22] * 2
    assert (record.samples("validation") == 12) == (recipe.method == "fixit" and recipe.reasoning == "glm-5.2")


def test_the_difference_of_two_recipes_is_what_differs():
    assert differences(load_recipe("s5"), load_recipe("s6")) == {"reasoning": ("glm-5.2", "qwen3.6-27b")}
    assert differences(load_recipe("s1"), load_recipe("s2")) == {"size": (158, 259), "mine.per_problem": (33, 0)}
    assert not differences(load_recipe("s3"), load_recipe("s3"))


def test_a_balanced_recipe_with_an_empty_class_says_which_problem_lacks_how_many(pool):
    recipe = Recipe(
        name="own",
        method="fixit",
        problems=tuple(D128[:2]),
        classes=("memory_error", "timeout"),
        balance="after",
        over=("problem", "class"),
        reasoning="glm-5.2",
        size=8,
    )
    places = gather([pool], BuildSettings(recipe=recipe)).places
    assert [lack.text for lack in lacks(recipe, places)] == [
        f"2 of {problem}, class timeout are needed and 0 are there: 2 lack." for problem in D128[:2]
    ]
    with pytest.raises(MisuseError, match=rf"own cannot be filled\.\n2 of {D128[0]}, class timeout"):
        choose(recipe, places)


def test_without_a_size_the_poorest_cell_decides_and_an_empty_one_is_named(pool):
    recipe = Recipe(name="own", method="fixit", problems=(D128[0], D96[0]), balance="after", reasoning="glm-5.2")
    places = gather([pool], BuildSettings(recipe=recipe)).places
    assert Counter(p.problem for p in choose(recipe, places)) == {D128[0]: 3, D96[0]: 3}
    empty = recipe.model_copy(update={"problems": (D128[0], "PTXBench-GEMM-B200")})
    assert [lack.text for lack in lacks(empty, [p for p in places if p.problem == D128[0]])] == [
        "1 of PTXBench-GEMM-B200 are needed and 0 are there: 1 lack."
    ]


def test_rounds_are_mixed_as_declared_the_newest_first(tmp_path):
    works = [work_of(tmp_path / str(r), [reasoning(n, D128[0], round_=r) for n in range(60)]) for r in range(3)]
    recipe = Recipe(name="mix", method="fixit", problems=(D128[0],), size=40, rounds=(0.5, 0.3, 0.2))
    places = gather(works, BuildSettings(recipe=recipe)).places
    assert Counter(p.round for p in choose(recipe, places)) == {2: 20, 1: 12, 0: 8}
    two = [p for p in places if p.round < 2]  # the share of a round that is not there yet goes to the others
    assert Counter(p.round for p in choose(recipe, two)) == {1: 25, 0: 15}
    with pytest.raises(MisuseError, match=r"80 of round 2 are needed and 60 are there: 20 lack"):
        choose(recipe.model_copy(update={"size": 160}), places)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('method = "fixit"\nproblems = ["PTXBench-GEM-H100"]', "Did you mean 'PTXBench-GEMM-H100'"),
        ('method = "fixit"\nproblems = []', "wrong problems"),
        ('method = "fix"\nproblems = ["PTXBench-GEMM-H100"]', "wrong method"),
        ('method = "fixit"\nproblem = ["PTXBench-GEMM-H100"]', "wrong"),
        ('method = "fixit', "cannot be read"),
        (
            'method = "fixit"\nproblems = ["PTXBench-GEMM-H100"]\nvalidation = ["PTXBench-GEMM-H100"]',
            "both trains on and holds out",
        ),
        ('method = "fixit"\nproblems = ["PTXBench-GEMM-H100"]\nrounds = [-1.0]', "shares above 0"),
    ],
)
def test_a_wrong_recipe_is_a_sentence(text, complaint, tmp_path):
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(MisuseError, match=complaint):
        load_recipe(str(tmp_path / "own.toml"))


def test_an_unknown_recipe_offers_the_nearest():
    with pytest.raises(MisuseError, match=r"no recipe .s9..*There are s0, s1"):
        load_recipe("s9")
