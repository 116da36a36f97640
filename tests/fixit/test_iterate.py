"""Two rounds with two checkpoints' runs, in which the second does not repeat the first."""

from __future__ import annotations

from collections import Counter

import pytest

from baselines.fixit.dataset import read_samples
from baselines.fixit.iterate import STATE, Iteration, State
from baselines.fixit.reason import ReasonSettings
from baselines.fixit.recipe import MinePart, Recipe
from baselines.fixit.records import read_failures
from baselines.fixit.repair import RepairSettings
from ptxgym.errors import MisuseError
from tests.baselines.endpoint import Reply, error
from tests.fixit.doubles import KERNEL, THOUGHT
from tests.fixit.small import STUB, register
from tests.fixit.test_mine import run_of, turn
from tests.fixit.test_repair import fenced, teacher

RECIPE = Recipe(
    name="own", method="fixit", problems=(STUB,), reasoning="teacher", rounds=(0.5, 0.5), mine=MinePart(last_turn=8)
)


@pytest.fixture(scope="module", autouse=True)
def _small_task():
    register()


def play(folder, numbers):
    """A run whose failures are these."""
    turns = [turn(1, n, "incorrect", f"int number_{n};\n{KERNEL % n} // broken", STUB) for n in numbers]
    return run_of(folder, turns, [STUB])


def script(request):
    thinks = "train of thought" in request.messages[0]["content"]
    return Reply(f"<reasoning>{THOUGHT}</reasoning>" if thinks else fenced(KERNEL % 1))


def rounds(root, who, recipe=RECIPE):
    return Iteration(
        root,
        recipe,
        teacher=who,
        reasoner=who,
        repairs=RepairSettings(turns=1, env_settings={"device": "simulator"}),
        reasons=ReasonSettings(),
        concurrency=1,
    )


def test_a_round_takes_the_newest_runs_and_builds_from_all(tmp_path):
    first, second = play(tmp_path / "run-a", [1, 2, 3]), play(tmp_path / "run-b", [3, 4, 5])
    root = tmp_path / "rounds"

    def dying(request):
        return script(request) if request.number <= 5 else error(401, "no key", "invalid_api_key")

    with teacher(dying) as (who, _):
        played, progress = rounds(root, who).run([first])
    assert (played.number, played.done) == (0, ("mine", "repair"))
    assert len(progress.left_open) == 1

    with teacher(script) as (who, endpoint):
        with pytest.raises(MisuseError, match="Round 0 is unfinished and has other runs"):
            rounds(root, who).run([second])
        played, built = rounds(root, who).run([])
        assert (played.number, len(endpoint.requests), built.samples("train")) == (0, 1, 3)
        with pytest.raises(MisuseError, match="mined in an earlier round"):
            rounds(root, who).run([first])
        with pytest.raises(MisuseError, match="follow another recipe"):
            rounds(root, who, RECIPE.model_copy(update={"seed": 1})).run([second])
        played, built = rounds(root, who).run([second])

    assert played.number == 1
    assert len(list(read_failures(root / "round-1"))) == 2  # the kernel of round 0 is not mined again
    mixed = Counter(s.metadata["round"] for s in read_samples(root / "round-1" / "data" / "train.parquet"))
    assert mixed == {0: 2, 1: 2}
    state = State.model_validate_json((root / STATE).read_bytes())
    assert [r.done for r in state.rounds] == [("mine", "repair", "reason", "build")] * 2


def test_a_round_needs_runs_and_a_teacher(tmp_path):
    with teacher(script) as (who, _), pytest.raises(MisuseError, match="Say which runs"):
        rounds(tmp_path, who).run([])
    with pytest.raises(MisuseError, match="needs a teacher"):
        rounds(tmp_path, None)
