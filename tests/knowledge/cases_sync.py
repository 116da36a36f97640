"""mbarriers, fences, clusters, elections, registers, named barriers."""

from __future__ import annotations

import numpy as np

from tests.knowledge.cases import Bench, Outcome, case, integers


@case(
    "sync", "arrivals",
    "shared_address mbarrier_init fence_mbarrier_init mbarrier_test_wait_parity mbarrier_try_wait_parity "
    "mbarrier_arrive mbarrier_arrive_count mbarrier_wait_parity mbarrier_inval",
    r"SYNCS\.EXCH\.64 SYNCS\.ARRIVE\.TRANS64\.A1T0 SYNCS\.ARRIVE\.TRANS64\.ART0 "
    r"SYNCS\.PHASECHK\.TRANS64\.TRYWAIT SYNCS\.PHASECHK\.TRANS64$ SYNCS\.CCTL\.IV",
)  # fmt: skip
def arrivals(b: Bench) -> Outcome:
    values = integers(1, 64)
    out, flags = b.empty(64), b.empty(3)
    b.launch(1, 64, b.give(values), out, flags)
    sums = values + values[::-1]
    return [(b[out], sums[::-1], 0), (b[flags], [1, 0, 1], 0)]


@case(
    "sync", "transactions", "mbarrier_arrive_expect_tx mbarrier_expect_tx bulk_load",
    r"SYNCS\.ARRIVE\.TRANS64$ SYNCS\.ARRIVE\.TRANS64\.RED\.A0TR UBLKCP\.S\.G",
)  # fmt: skip
def transactions(b: Bench) -> Outcome:
    values = integers(2, 96)
    out = b.empty(64)
    b.launch(1, 32, b.give(values), out)
    return [(b[out], np.concatenate([values[:32] + values[32:64], values[64:]]), 0)]


@case("sync", "ring", "advance elect_sync", "ELECT UBLKCP SYNCS")
def ring(b: Bench) -> Outcome:
    values = integers(3, 11, 32)
    out = b.empty(32)
    b.launch(1, 64, b.give(values), out, 11)
    return [(b[out], values.sum(0), 0)]


@case(
    "sync", "neighbours",
    "cluster_ctarank cluster_nctarank cluster_sync cluster_arrive cluster_arrive_relaxed cluster_wait mapa "
    "st_shared_cluster ld_shared_cluster st_async mbarrier_arrive_expect_tx_remote mbarrier_arrive_remote",
    r"UCGABAR_ARV UCGABAR_WAIT SYNCS\.ARRIVE\.TRANS64\.RED$ SYNCS\.ARRIVE\.TRANS64\.RED\.A1T0",
)  # fmt: skip
def neighbours(b: Bench) -> Outcome:
    values = integers(4, 2, 32)
    out, sizes = b.empty((2, 32, 3), np.uint32), b.empty(2)
    b.launch(2, 32, b.give(values), out, sizes, cluster=(2, 1, 1))
    other = values[::-1]
    expected = np.stack([other, values, other * 3], axis=2)
    return [(b[out].view(np.int32), expected, 0), (b[sizes], [2, 2], 0)]


@case("sync", "publish", "fence_acq_rel_cluster fence_acq_rel_gpu", r"MEMBAR\.ALL\.GPU")
def publish(b: Bench) -> Outcome:
    values = integers(5, 32)
    out = b.empty(32)
    b.launch(2, 32, b.give(values), b.empty(32), b.empty(1), out, cluster=(2, 1, 1))
    return [(b[out], values + 1, 0)]


@case("sync", "proxies", "fence_proxy_async fence_proxy_async_global", r"FENCE\.VIEW\.ASYNC\.G FENCE\.VIEW\.ASYNC\.S")
def proxies(b: Bench) -> Outcome:
    values = integers(6, 32)
    out = b.empty(32)
    b.launch(1, 32, b.give(values), b.empty(32), out)
    return [(b[out], values * 5 + 1, 0)]


@case("sync", "elections", "elect_sync", "ELECT")
def elections(b: Bench) -> Outcome:
    out = b.empty(4)
    b.launch(1, 64, out)
    return [(b[out], [1, 1, 32, 32], 0)]


@case("sync", "budgets", "setmaxnreg_dec setmaxnreg_inc",
      r"USETMAXREG\.TRY_ALLOC\.CTAPOOL USETMAXREG\.DEALLOC\.CTAPOOL")  # fmt: skip
def budgets(b: Bench) -> Outcome:
    values = integers(7, 256).astype(np.float32)
    out = b.empty(256, np.float32)
    b.launch(1, 384, b.give(values), out)
    return [(b[out], values * 2, 0)]


@case("sync", "named", "barrier_sync barrier_arrive", r"BAR\.SYNC BAR\.ARV")
def named(b: Bench) -> Outcome:
    values = integers(8, 2, 64)
    out = b.empty((2, 64))
    b.launch(1, 128, b.give(values), out, 2)
    return [(b[out], values[::-1, ::-1], 0)]
