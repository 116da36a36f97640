"""A rollout worker in a process of its own: ``python -m tests.evaluation.pool_worker SOCKET SEED``.

Sixteen trajectories submit what the seed says and cancel some of it. It prints ``begun`` once every trajectory has
submitted something, and at the end one line of JSON: how many results were right, and what was wrong.
"""

import hashlib
import json
import random
import sys
import threading
import time

from ptxgym.evaluation import EvaluationOptions, PoolClient

TRAJECTORIES, SUBMISSIONS = 16, 6
LONG = 120

BROKEN = [f"int broken_{number} = ;" for number in range(4)]
"""Different sources that are quickly judged, and only once: the cache has them afterwards."""


def plan(seed: int, real: list[str]) -> list[str]:
    """What one trajectory submits; the real kernels are rare."""
    draw = random.Random(seed)
    return draw.choices([*BROKEN, *real], weights=[10] * len(BROKEN) + [1] * len(real), k=SUBMISSIONS)


class Trajectory:
    def __init__(self, client: PoolClient, name: int, seed: int, real: list[str]) -> None:
        self.client, self.name, self.draw = client, str(name), random.Random(seed + 1)
        self.sources = plan(seed, real)
        self.order: list[int] = []
        self.problems: list[str] = []
        self.right = 0

    def play(self) -> None:
        options = EvaluationOptions(device="simulator")
        futures = []
        for number, source in enumerate(self.sources):
            future = self.client.submit(source, "Tiny", options, trajectory=self.name)
            future.add_done_callback(lambda f, number=number: None if f.cancelled() else self.order.append(number))
            futures.append(future)
            if self.draw.random() < 0.2:
                self.draw.choice(futures).cancel()
        if self.draw.random() < 0.1:
            self.client.cancel(self.name)
        for source, future in zip(self.sources, futures, strict=True):
            if future.cancelled():
                continue
            evaluation = future.result(LONG)
            if evaluation.source_sha256 == hashlib.sha256(source.encode()).hexdigest():
                self.right += 1
            else:
                self.problems.append(f"{self.name}: the result of another source, {evaluation.status}")
        delivered = [number for number, future in enumerate(futures) if not future.cancelled()]
        patience = time.monotonic() + 10  # a future wakes who waits for it before it calls back
        while len(self.order) < len(delivered) and time.monotonic() < patience:
            time.sleep(0.01)
        if self.order != delivered:
            self.problems.append(f"{self.name}: {self.order} instead of {delivered}")


def main() -> None:
    path, seed = sys.argv[1], int(sys.argv[2])
    real = sys.stdin.read().split("\f") if len(sys.argv) > 3 else []
    with PoolClient(path) as client:
        trajectories = [Trajectory(client, n, 100 * seed + n, real) for n in range(TRAJECTORIES)]
        threads = [threading.Thread(target=trajectory.play) for trajectory in trajectories]
        for thread in threads:
            thread.start()
        print("begun", flush=True)
        for thread in threads:
            thread.join(LONG)
    problems = [problem for trajectory in trajectories for problem in trajectory.problems]
    print(json.dumps({"right": sum(trajectory.right for trajectory in trajectories), "problems": problems}))


if __name__ == "__main__":
    main()
