"""The pool's promises, one by one. A source that waits to be read holds a worker for as long as a test likes."""

import asyncio
import copy
import dataclasses
import pickle
import queue
import threading
from concurrent.futures import CancelledError, Future, wait

import pytest

from ptxgym.errors import MisuseError
from ptxgym.evaluation import Evaluation, EvaluationOptions, EvaluationPool, Evaluator
from ptxgym.tasks import Task, get_task

ID = "PTXBench-GEMM-H100"
NOWHERE = EvaluationOptions(device="none")
LONG = 60  # seconds that nothing here takes, so that a deadlock fails instead of hanging

NAIVE = """
__global__ void naive(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
    const int row = blockIdx.y, col = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += __bfloat162float(A[row * K + k]) * __bfloat162float(B[col * K + k]);
    C[row * N + col] = __float2bfloat16(sum);
}
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
    naive<<<dim3(1, M), N, 0, stream>>>(A, B, C, N, K);
    return cudaGetLastError();
}
"""


def tiny_task() -> Task:
    return dataclasses.replace(get_task(ID), id="Tiny", probes=({"M": 16, "N": 32, "K": 32},))


class Held(str):
    """A source whose reader waits, so that its evaluation has begun and does not end."""

    def __new__(cls, text: str = " ") -> "Held":
        self = super().__new__(cls, text)
        self.begun, self.released = threading.Event(), threading.Event()
        return self

    def encode(self, *args: object) -> bytes:
        self.begun.set()
        assert self.released.wait(LONG)
        return super().encode(*args)


@pytest.fixture
def pool():
    with EvaluationPool(workers=1, capacity=8, share=4) as pool:
        yield pool


def hold(pool: EvaluationPool, text: str = " ", trajectory: str = "held") -> tuple[Held, Future[Evaluation]]:
    source = Held(text)
    future = pool.submit(source, ID, NOWHERE, trajectory=trajectory)
    assert source.begun.wait(LONG)
    return source, future


def submit(pool: EvaluationPool, trajectory: str, source: object = None, **options: object) -> Future[Evaluation]:
    return pool.submit(source, ID, NOWHERE, trajectory=trajectory, **options)


def in_thread(work):
    """Start a call; returns a function that waits for its result, or raises what it raised."""
    outcome: Future[object] = Future()

    def run():
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return lambda: outcome.result(LONG)


def until(condition) -> None:
    """Wait for what another thread is about to do."""
    deadline = threading.Event()
    for _ in range(LONG * 100):
        if condition():
            return
        deadline.wait(0.01)
    raise AssertionError("it never happened")


def test_a_pool_finds_what_an_evaluator_finds(pool):
    source = "int x = ;"
    pooled = pool.submit(source, get_task(ID), NOWHERE).result(LONG)
    alone = Evaluator(get_task(ID), NOWHERE).evaluate(source)
    assert pooled.status == alone.status == "compile_error"
    assert pooled.source_sha256 == alone.source_sha256


def test_trajectories_take_turns_whatever_one_of_them_hands_in(pool):
    held, first = hold(pool)
    order = []
    for trajectory in ("greedy", "greedy", "greedy", "greedy", "b", "c"):
        future = submit(pool, trajectory)
        future.add_done_callback(lambda _, name=trajectory: order.append(name))
    last = submit(pool, "c")
    held.released.set()
    first.result(LONG)
    wait([future, last], LONG)
    until(lambda: len(order) == 6)
    assert order[:3] == ["greedy", "b", "c"]


def test_results_of_a_trajectory_come_in_the_order_of_submission():
    order = []
    with EvaluationPool(workers=2) as pool:
        held, first = hold(pool, trajectory="a")
        first.add_done_callback(lambda _: order.append("a1"))
        second = submit(pool, "a")
        second.add_done_callback(lambda _: order.append("a2"))
        submit(pool, "b").result(LONG)  # by the only free worker, after it had judged a2
        assert pool.load.judged == 2
        assert not second.done()
        held.released.set()
        second.result(LONG)
    assert order == ["a1", "a2"]


def test_equal_submissions_share_one_evaluation_while_it_is_in_flight(pool):
    source = "int equal_submissions = ;"
    held, _ = hold(pool)
    futures = [submit(pool, f"t{number}", source) for number in range(4)]
    other = pool.submit(source, ID, NOWHERE.model_copy(update={"regime": "cool"}), trajectory="t0")
    held.released.set()
    assert len({id(future.result(LONG)) for future in futures}) == 1
    assert other.result(LONG) is not futures[0].result()
    assert (pool.load.judged, pool.load.joined) == (3, 3)


def test_what_must_not_come_from_the_cache_is_judged_for_itself(pool):
    held, _ = hold(pool)
    fresh = NOWHERE.model_copy(update={"cache": False})
    futures = [pool.submit("int fresh = ;", ID, fresh, trajectory=str(number)) for number in range(2)]
    held.released.set()
    assert len({id(future.result(LONG)) for future in futures}) == 2
    assert pool.load.joined == 0


def test_later_the_cache_answers():
    options = EvaluationOptions(device="simulator")
    with EvaluationPool(workers=2) as pool:
        first = pool.submit(NAIVE, tiny_task(), options).result(LONG)
        again = pool.submit(NAIVE, tiny_task(), options).result(LONG)
    assert first.correct
    assert (first.status, first.cached, again.cached) == ("target_instructions_missing", False, True)
    assert again.model_copy(update={"cached": False}) == first


def test_a_cancelled_submission_in_the_queue_is_never_judged(pool):
    held, first = hold(pool)
    future = submit(pool, "a")
    after = submit(pool, "a")
    assert future.cancel()
    assert pool.load.queued == 1
    assert future in wait([future], LONG).done
    held.released.set()
    assert after.result(LONG).status == "invalid_action"
    assert first.result(LONG).status == "invalid_action"
    assert pool.load.judged == 2


def test_a_cancelled_evaluation_stops_before_its_next_stage(pool):
    held, future = hold(pool, "int stops_before_compiling = ;")
    assert future.cancel()
    held.released.set()
    submit(pool, "b").result(LONG)
    assert pool.load.abandoned == 1
    assert pool.load.judged == 1
    assert pool.load.running == 0


def test_a_cancelled_evaluation_goes_on_while_another_waits_for_it(pool):
    held, future = hold(pool, "int others_wait = ;")
    other = submit(pool, "b", str(held))
    future.cancel()
    held.released.set()
    assert other.result(LONG).status == "compile_error"
    assert pool.load.abandoned == 0


def test_an_evaluation_that_nobody_wants_is_taken_up_again_by_who_comes_before_it_stops(pool):
    held, future = hold(pool, "int wanted_again = ;")
    future.cancel()
    again = submit(pool, "b", str(held))
    held.released.set()
    assert again.result(LONG).status == "compile_error"
    assert (pool.load.judged, pool.load.abandoned) == (1, 0)


def test_a_cancelled_head_lets_the_results_behind_it_out():
    with EvaluationPool(workers=2) as pool:
        held, first = hold(pool, trajectory="a")
        second = submit(pool, "a")
        submit(pool, "b").result(LONG)
        assert not second.done()
        first.cancel()
        assert second.result(LONG).status == "invalid_action"
        held.released.set()


def test_cancelling_a_rollout_frees_its_work_and_nobody_elses(pool):
    held, first = hold(pool)
    own = [submit(pool, "a") for _ in range(3)]
    other = submit(pool, "b")
    pool.cancel("a")
    assert all(future.cancelled() for future in own)
    assert pool.load.queued == 1
    held.released.set()
    assert other.result(LONG).status == "invalid_action"
    assert first.result(LONG).status == "invalid_action"


def test_a_full_queue_refuses_or_makes_wait():
    with EvaluationPool(workers=1, capacity=1) as pool:
        held, _ = hold(pool)
        waiting = submit(pool, "a")
        with pytest.raises(queue.Full):
            submit(pool, "b", timeout=0)
        blocked = in_thread(lambda: submit(pool, "b"))
        until(lambda: pool._blocked)
        assert pool.load.queued == 1
        waiting.cancel()  # makes room
        assert not blocked().done()
        held.released.set()
        assert blocked().result(LONG).status == "invalid_action"


def test_one_trajectory_cannot_fill_the_queue(pool):
    held, _ = hold(pool)
    for _ in range(pool.share):
        submit(pool, "greedy", timeout=0)
    with pytest.raises(queue.Full):
        submit(pool, "greedy", timeout=0)
    blocked = in_thread(lambda: submit(pool, "greedy"))
    until(lambda: pool._blocked)
    modest = submit(pool, "modest", timeout=0)  # although somebody was there before, who does not fit
    held.released.set()
    assert modest.result(LONG).status == blocked().result(LONG).status == "invalid_action"


def test_cancelling_and_closing_wake_who_waits_for_room():
    pool = EvaluationPool(workers=1, capacity=1)
    held, first = hold(pool)
    queued = submit(pool, "a")
    for end in (lambda: pool.cancel("b"), lambda: in_thread(pool.close)):
        blocked = in_thread(lambda: submit(pool, "b"))
        until(lambda: pool._blocked)
        end()
        with pytest.raises(CancelledError):
            blocked()
    held.released.set()
    pool.close()
    assert first.cancelled()
    assert queued.cancelled()
    with pytest.raises(MisuseError, match="closed"):
        submit(pool, "a")


def test_a_callback_may_submit(pool):
    chained: Future[Evaluation] = Future()
    held, first = hold(pool)
    first.add_done_callback(lambda _: submit(pool, "a").add_done_callback(lambda f: chained.set_result(f.result())))
    held.released.set()
    assert chained.result(LONG).status == "invalid_action"


def test_asyncio_awaits_and_cancels(pool):
    async def play():
        held, first = hold(pool)
        waiting = asyncio.ensure_future(asyncio.wrap_future(submit(pool, "a")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)  # asyncio passes it on in its next round
        assert pool.load.queued == 0
        held.released.set()
        return await asyncio.wrap_future(first)

    assert asyncio.run(play()).status == "invalid_action"


def test_a_fault_of_ours_reaches_who_waits_and_the_worker_goes_on(pool, monkeypatch):
    monkeypatch.setattr(Evaluator, "evaluate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        submit(pool, "a").result(LONG)
    monkeypatch.undo()
    assert submit(pool, "a").result(LONG).status == "invalid_action"


def test_nothing_is_kept_of_trajectories_that_are_over(pool):
    for number in range(20):
        submit(pool, str(number), "").result(LONG)
    until(lambda: not pool._trajectories)
    assert not pool._works


def test_a_trajectory_that_begins_anew_is_not_forgotten_with_the_one_before(pool):
    held, first = hold(pool, trajectory="a")
    before = pool._trajectories["a"]
    held.released.set()
    first.result(LONG)
    until(lambda: not pool._trajectories)
    held, _ = hold(pool)
    future = submit(pool, "a")
    pool._deliver(before)  # as a thread does that comes late
    held.released.set()
    assert future.result(LONG).status == "invalid_action"


def test_misuse_is_told_at_once(pool):
    with pytest.raises(MisuseError, match="Did you mean"):
        pool.submit("", "PTXBench-GEM-H100")
    with pytest.raises(MisuseError, match="none of 'auto'"):
        pool.submit("", ID, EvaluationOptions(device="tpu"))
    with pytest.raises(MisuseError, match="at least one worker"):
        EvaluationPool(workers=0)
    with pytest.raises(MisuseError, match="PoolServer"):
        pickle.dumps(pool)
    assert copy.deepcopy({"pool": pool})["pool"] is pool
