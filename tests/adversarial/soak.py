"""Many evaluations while processes are killed: ``python -m tests.adversarial.soak --device cuda --evaluations 300``.

One evaluation in three is hostile. Judges are processes of their own; some are killed in the middle of an evaluation
and started again, and so are candidates. An evaluation that was disturbed must not pass by it and is made again; every
other must come to the verdict that its file names. Afterwards nothing may be left: no process, no folder, no shared
memory, no growth of a judge. Prints a table and exits with 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import functools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from ptxgym.devices import candidate
from ptxgym.evaluation import STAGES, StageName
from ptxgym.tasks import get_task
from ptxgym.toolchain import compile_source, read_source, scratch

from .soak_judge import TASK, Answer, Judge, Verdict, Where
from .suite import ATTACKS, FOLDER, HONEST, REFUSES_WORKLOAD, Attack, expected_status, source

Say = Callable[[str], None]

_LATEST_KILL = 2.5
_KILLED_JUDGES, _KILLED_CANDIDATES = 0.06, 0.12
_SETTLE_SECONDS = 15.0
_MORE_BYTES = 256 << 20
"""Of the GPU's memory."""
_SET_CHILD_SUBREAPER = 36
_SAY_SECONDS = 10.0

SLOW = ("special_profiler", "special_first_call", "decoy_zero_operands", "decoy_unused_product", "fallback_plain",
        "fallback_pinned_host")  # fmt: skip
"""Files that take a GPU many seconds; the suite judges each once."""


@dataclasses.dataclass(frozen=True)
class Item:
    """One evaluation to make."""

    path: Path
    expected: Verdict
    stages: tuple[StageName, ...]
    kill: Literal["", "judge", "candidate"]
    after: float
    """Seconds from its start to the kill."""

    @property
    def hostile(self) -> bool:
        """Whether it must not pass."""
        return self.path.parent.name == "attacks"


@dataclasses.dataclass
class Outcome:
    """What was seen."""

    judged: int = 0
    not_begun: int = 0
    """Evaluations for which there was no time."""
    disturbed: int = 0
    judges_killed: int = 0
    candidates_killed: int = 0
    wrong: list[str] = dataclasses.field(default_factory=list)
    growth: list[str] = dataclasses.field(default_factory=list)
    left: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing was wrong."""
        return not (self.wrong or self.growth or self.left)

    def table(self) -> str:
        """As text."""
        rows = [
            ("evaluations", self.judged),
            ("not begun", self.not_begun),
            ("disturbed, and made again", self.disturbed),
            ("judges killed", self.judges_killed),
            ("candidates killed", self.candidates_killed),
            ("wrong verdicts", len(self.wrong)),
            ("judges that grew", len(self.growth)),
            ("things left behind", len(self.left)),
            ("seconds", round(self.seconds, 1)),
        ]
        return "\n".join([*(f"{name:<28}{value:>8}" for name, value in rows), *self.wrong, *self.growth, *self.left])


def _silent(_: str) -> None: ...


def plan(where: Where, count: int, seed: int) -> list[Item]:
    """The evaluations to make, in order."""
    random_ = random.Random(seed)
    attacks = [(path, Attack.read(path)) for path in ATTACKS if where == "simulator" or path.stem not in SLOW]
    known = [(path, attack.simulator if where == "simulator" else attack.gpu) for path, attack in attacks]
    hostile = [(path, evidence) for path, evidence in known if evidence]
    honest = [path for path in HONEST if where == "simulator" or path.stem != REFUSES_WORKLOAD]
    items = []
    for number in range(count):
        if number % 3 == 2:
            path, evidence = hostile[random_.randrange(len(hostile))]
            assert evidence is not None
            expected: Verdict = (*evidence, "")
            stages = STAGES[: STAGES.index(evidence[0]) + 1]  # type: ignore[arg-type]
        else:
            path = honest[random_.randrange(len(honest))]
            expected = ("", "", expected_status(path))
            stages = STAGES if random_.random() < 0.05 or expected[2] != "passed" else STAGES[:4]
        weights = (_KILLED_JUDGES, _KILLED_CANDIDATES, 1 - _KILLED_JUDGES - _KILLED_CANDIDATES)
        kill: Any = random_.choices(("judge", "candidate", ""), weights)[0]
        items.append(Item(path, expected, stages, kill, random_.uniform(0, _LATEST_KILL)))
    return items


def brief() -> list[Item]:
    """A few evaluations for the simulator, with a kill of each kind."""
    plain, exits = FOLDER / "honest" / "plain.cu", FOLDER / "attacks" / "channel_exit.cu"
    evidence = Attack.read(exits).simulator
    assert evidence is not None
    honest, hostile = ("", "", "passed"), (*evidence, "")
    return [
        Item(plain, honest, (), "judge", 1.0),  # also when the compiled program is kept from before
        Item(exits, hostile, (), "", 0),
        Item(plain, honest, (), "candidate", 2.5),
        Item(exits, hostile, (), "candidate", 0.5),
        Item(plain, honest, (), "", 0),
    ]


def right(item: Item, verdict: Verdict, where: Where) -> bool:
    """Whether an undisturbed evaluation came out as its file says."""
    stage, reason, status = item.expected
    if not item.hostile:
        return verdict[2] == status
    same = verdict[1] == reason or (where == "cuda" and {verdict[1], reason} == {"crash", "exit"})
    return verdict[0] == stage and same


def soak(
    where: Where,
    items: Sequence[Item],
    judges: int,
    compilers: int,
    within: float = float("inf"),
    say: Say = _silent,
    log: Say = _silent,
) -> Outcome:
    """Make the evaluations, disturb some, and look at what is left.

    Args:
        where: The device.
        items: The evaluations.
        judges: How many at a time.
        compilers: How many kernels are compiled at a time, before the first evaluation.
        within: Seconds after which no evaluation is begun any more.
        say: Told of progress.
        log: Given a line of JSON for every evaluation that has ended.
    """
    start, outcome, shm = time.monotonic(), Outcome(), _shared_memory()
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whom a killed judge leaves behind becomes our child
    before = _gpu_bytes(where)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        os.environ.setdefault("PTXGYM_CACHE", str(folder / "cache"))
        (folder / "judges").mkdir()
        with ThreadPoolExecutor(compilers) as pool:
            list(pool.map(_compile, {item.path for item in items if item.expected[0] != "compile"}))
        waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
        for item in items:
            waiting.put(item)
        lock = threading.Lock()
        seen = gpus() if where == "cuda" else [""]
        threads = []
        for number in range(judges):
            start_judge = functools.partial(Judge, where, folder / "judges", seen[number % len(seen)])
            arguments = (where, start_judge, waiting, outcome, lock, start + within, log)
            threads.append(threading.Thread(target=_work, args=arguments))
        for thread in threads:
            thread.start()
        told = 0
        for thread in threads:
            while thread.is_alive():
                thread.join(_SAY_SECONDS)
                say(
                    f"{time.monotonic() - start:.0f} s: {outcome.judged} judged, {waiting.qsize()} to go, "
                    f"{len(outcome.wrong)} wrong"
                )
                for wrong in outcome.wrong[told:]:  # at once: a soak may be ended before its table
                    say(wrong)
                    told += 1
        outcome.not_begun = waiting.qsize()
        outcome.left += _orphans()
        scratch._SETTLED_SECONDS = 0
        tempfile.tempdir = str(folder / "judges")
        scratch.sweep()
        tempfile.tempdir = None
        left = [path.name for path in (folder / "judges").iterdir() if not path.name.startswith("ptxgym-locks-")]
        outcome.left += [f"folder {entry}" for entry in left]
    outcome.left += [f"shared memory {entry}" for entry in sorted(_shared_memory() - shm)]
    if (more := _gpu_bytes(where) - before) > _MORE_BYTES:
        outcome.left.append(f"{more >> 20} MiB of the GPU's memory")
    outcome.seconds = time.monotonic() - start
    return outcome


def _compile(path: Path) -> None:
    compile_source(read_source(source(path)), get_task(TASK))


def _work(
    where: Where,
    start_judge: Callable[[], Judge],
    waiting: queue.SimpleQueue[Item],
    outcome: Outcome,
    lock: threading.Lock,
    deadline: float,
    log: Say,
) -> None:
    judge_ = start_judge()
    while time.monotonic() < deadline:
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            break
        killed = threading.Event()
        disturber = threading.Timer(item.after, _disturb, (judge_.process.pid, item.kill, killed))
        if item.kill:
            disturber.start()
        begun = time.monotonic()
        answer = judge_.evaluate(item.path, item.stages)
        disturber.cancel()
        if item.kill:
            disturber.join()
        seen: dict[str, Any] = {
            "file": item.path.stem,
            "expected": item.expected,
            "verdict": answer and answer.verdict,
            "killed": item.kill if killed.is_set() else "",
            "ended": round(time.time(), 2),
            "lasted": round(time.monotonic() - begun, 2),
            "seconds": answer and answer.seconds,
            "message": answer and answer.message,
        }
        with lock:
            _count(item, answer, killed.is_set(), where, outcome, waiting)
            log(json.dumps(seen))
        if answer is None or (killed.is_set() and item.kill == "judge"):  # perhaps just after it had answered
            judge_.close()
            judge_ = start_judge()
    judge_.close()
    with lock:
        outcome.growth += filter(None, [judge_.grew()])


def _count(
    item: Item,
    answer: Answer | None,
    killed: bool,
    where: Where,
    outcome: Outcome,
    waiting: queue.SimpleQueue[Item],
) -> None:
    outcome.judged += 1
    outcome.judges_killed += killed and item.kill == "judge"
    outcome.candidates_killed += killed and item.kill == "candidate"
    name = f"{item.path.stem}: expected {item.expected}, got {answer and answer.verdict}"
    if answer is None and not (killed and item.kill == "judge"):
        outcome.wrong.append(f"{name}: the judge ended or did not end")
    elif killed:
        outcome.disturbed += 1
        waiting.put(dataclasses.replace(item, kill=""))
        if answer and item.hostile and answer.verdict[2] == "passed":
            outcome.wrong.append(f"{name}, after its candidate was killed")
    elif answer and not right(item, answer.verdict, where):
        outcome.wrong.append(f"{name}: {answer.message[:300]}")


def _disturb(judge_: int, kill: str, killed: threading.Event) -> None:
    """Kill the judge, or the first process of a candidate's that it has."""
    with contextlib.suppress(OSError):
        if kill == "judge":
            killed.set()
            os.kill(judge_, signal.SIGKILL)
            return
        for pid in _descendants(judge_):
            if candidate.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                killed.set()
                os.kill(pid, signal.SIGKILL)
                return


def _descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _descendants(child)


def _orphans() -> list[str]:
    """Who is still our child after a while; those that have ended are waited for."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = [pid for pid in _descendants(os.getpid()) if _command(pid)]
        if not left or time.monotonic() > deadline:
            return [f"process {pid}: {_command(pid)}" for pid in left]
        time.sleep(0.1)


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:200]
    return ""


def _shared_memory() -> set[str]:
    return {path.name for path in Path("/dev/shm").iterdir() if "ptxgym" in path.name}


def gpus() -> list[str]:
    """The GPUs that this process sees, as nvidia-smi names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return visible.split(",")
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True
    )
    return listed.stdout.split()


def _gpu_bytes(where: Where) -> int:
    """The GPU's memory in use, as the driver tells without a context of ours."""
    if where == "simulator":
        return 0
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id", ",".join(gpus())]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    return sum(int(line) << 20 for line in text.split() if line.isdigit())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--device", choices=("simulator", "cuda"), default="simulator")
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judges", type=int, default=0, help="at a time; up to eight for each GPU by default")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds; what is begun is ended")
    parser.add_argument(
        "--log", type=Path, help="append a line of JSON for every evaluation: verdict, seconds, message"
    )
    parser.add_argument("--brief", action="store_true", help="five evaluations on the simulator, with kills")
    options = parser.parse_args()
    items = brief() if options.brief else plan(options.device, options.evaluations, options.seed)
    judges = options.judges or min(8 * max(1, len(gpus()) if options.device == "cuda" else 1), os.cpu_count() or 1)
    say = functools.partial(print, file=sys.stderr, flush=True)
    with contextlib.ExitStack() as stack:
        log = _silent
        if options.log:  # every line is written at once
            file = stack.enter_context(options.log.open("a", encoding="utf-8", buffering=1))
            log = functools.partial(print, file=file)
        outcome = soak(options.device, items, judges, os.cpu_count() or 1, options.within, say, log)
    print(outcome.table())
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
