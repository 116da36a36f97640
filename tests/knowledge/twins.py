"""Violating twins: each breaks one contract of a page in an example kernel, and is found under one of the codes named.

A twin without a code is a contract that the simulator does not watch; the page must say so.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.knowledge.examples import example


@dataclass(frozen=True)
class Twin:
    """A replacement in an example."""

    architecture: str
    kernel: str
    contract: str
    """The contract's number in the page."""
    old: str
    new: str
    codes: tuple[str, ...]

    @property
    def source(self) -> str:
        """The example with the contract broken; the first occurrence is replaced."""
        text = example(self.architecture, self.kernel)
        assert self.old in text, f"{self.old!r} is not in {self.kernel}"
        return text.replace(self.old, self.new, 1)

    @property
    def name(self) -> str:
        """For the test's id."""
        return f"{self.architecture}-{self.kernel}-{self.contract}"


TWINS: list[Twin] = []


def _twin(architecture: str, kernel: str, contract: str, old: str, new: str, codes: str) -> None:
    TWINS.append(Twin(architecture, kernel, contract, old, new, tuple(codes.split())))


def _hopper(kernel: str, contract: str, old: str, new: str, codes: str) -> None:
    _twin("hopper", kernel, contract, old, new, codes)


_hopper("gemm", "1", "wgmma_descriptor_k_major<Swizzle::B128>(s.b", "wgmma_descriptor_k_major<Swizzle::B64>(s.b",
        "swizzle-mismatch")  # fmt: skip
_hopper("attention", "1", "KEYS * 128);  // [1]", "64);  // [1]", "")
_hopper("gemm", "2", "tma_load_2d(s.a[ring.stage],", "tma_load_2d(s.a[ring.stage] + 8,", "misaligned")
_hopper("gemm", "2", "__nv_bfloat16 a[STAGES]", "__nv_bfloat16 pad[64]; __nv_bfloat16 a[STAGES]",
        "descriptor-alignment")  # fmt: skip
_hopper("gemm", "3", "a + step_k_major<Swizzle::B128>(i, 0)", "a + 4 * i", "descriptor-alignment read-before-arrival")
_hopper("gemm", "4", "wgmma_fence();", "", "wgmma-fence")
_hopper("attention", "4", "wgmma_fence();  // [4]", "//", "wgmma-fence")
_hopper("gemm", "5", "wgmma_wait_group<0>();  // [5]", "", "wgmma-in-flight stage-reuse")
_hopper("attention", "5", "wgmma_wait_group<0>();  // [5]", "", "wgmma-in-flight")
_hopper("attention", "6", "wgmma_wait_group<0>();  // [6]", "//", "wgmma-in-flight stage-reuse")
_hopper("gemm", "11", "    __syncthreads();  // [11]", "", "mbarrier-init-race mbarrier-uninitialised")
_hopper("gemm", "12", "fence_proxy_async();", "", "missing-proxy-fence")
_hopper("gemm", "12", "consumer ? barrier_sync<2, 128>() : barrier_sync<1, 128>();", "__syncwarp();", "shared-race")
_hopper("gemm", "14", "ring.parity ^ 1);  // [14]", "ring.parity);", "deadlock")
_hopper("gemm", "14", "mbarrier_wait_parity(&s.full[ring.stage], ring.parity)",
        "mbarrier_wait_parity(&s.full[ring.stage], k & 1)", "read-before-arrival deadlock")  # fmt: skip
_hopper("gemm", "14", "mbarrier_wait_parity(&s.full[ring.stage], ring.parity)",
        "mbarrier_wait_parity(&s.full[ring.stage], ring.parity ^ 1)", "phase-slip")  # fmt: skip
_hopper("gemm", "14", "ring.parity ^ 1);  // [14]", "1);", "phase-slip")
_hopper("gemm", "15", "mbarrier_init(&s.empty[i], 8)", "mbarrier_init(&s.empty[i], 4)",
        "stage-reuse mbarrier-over-arrival deadlock")  # fmt: skip
_hopper("gemm", "15", "wgmma_wait_group<0>();  // [5]", "if (elect_sync()) mbarrier_arrive(&s.empty[ring.stage]); //",
        "stage-reuse")  # fmt: skip
_hopper("multicast", "15", "if (threadIdx.x % 32 < 2) mbarrier_arrive_remote(",
        "if (threadIdx.x < 2) for (int n = 0; n < 2; ++n) mbarrier_arrive_remote(", "phase-slip")  # fmt: skip
_hopper("gemm", "16", "(BM + BN) * BK *", "16 + (BM + BN) * BK *", "deadlock")
_hopper("gemm", "16", "mbarrier_arrive_expect_tx(&s.full", "mbarrier_expect_tx(&s.full", "deadlock")
_hopper("attention", "16", "sizeof(s.k[0]) + sizeof(s.v[0]))", "sizeof(s.k[0]))",
        "read-before-arrival deadlock stage-reuse")  # fmt: skip
_hopper("multicast", "16", "ROWS * COLUMNS * 2);", "ROWS * COLUMNS);", "read-before-arrival deadlock tx-count")
_hopper("gemm", "17", "(BM + BN) * BK *", "(1 << 20) + (BM + BN) * BK *", "tx-count deadlock")
_hopper(
    "multicast",
    "18",
    "mbarrier_arrive_remote(&empty, threadIdx.x % 32)",
    "mbarrier_arrive(&empty)",
    "deadlock stage-reuse",
)
_hopper("multicast", "19", "cluster_sync();  // [19]", "//", "remote-after-exit")
_hopper("multicast", "20", "cluster_sync();", "__syncthreads();", "mbarrier-uninitialised mbarrier-init-race")
_hopper("multicast", "20", "&full, 3, 0", "&full, 7, 0", "multicast-mask")
_hopper("attention", "21", "load(s.q, &map_q,", "load(s.q, reinterpret_cast<const CUtensorMap*>(LSE),",
        "not-a-tensor-map")  # fmt: skip
_hopper("gemm", "23", "&s.full[ring.stage], k * BK, row)", "&s.full[ring.stage], row, k * BK)", "")
_hopper("gemm", "23", "&s.full[ring.stage], k * BK, row)", "&s.full[ring.stage], k * BK + 4, row)", "tensor-coordinate")
_hopper("gemm", "25", "bulk_wait_group_read<0>();", "", "bulk-not-waited")
_hopper("gemm", "25", "bulk_commit_group();", "", "bulk-not-waited")
_hopper("gemm", "28", "barrier_sync<2, 128>() :", "barrier_sync<2, 256>() :", "deadlock")


def _blackwell(kernel: str, contract: str, old: str, new: str, codes: str) -> None:
    _twin("blackwell", kernel, contract, old, new, codes)


_blackwell("gemm", "1", "tcgen05_descriptor_k_major<Swizzle::B128>(s.a", "tcgen05_descriptor_k_major<Swizzle::B64>(s.a",
           "swizzle-mismatch")  # fmt: skip
_blackwell("gemm", "12", "fence_proxy_async();", "", "missing-proxy-fence")
_blackwell("gemm", "16", "(BM + BN) * BK *", "16 + (BM + BN) * BK *", "deadlock")
_blackwell("gemm", "T1", "if (warp == 1) tcgen05_dealloc<1, BN>(d);", "", "tmem-leak")
_blackwell("gemm", "T1", "tcgen05_alloc<1, BN>", "tcgen05_alloc<1, BN / 2>", "tmem-out-of-bounds")
_blackwell("gemm", "T1", "tcgen05_alloc<1, BN>", "tcgen05_relinquish_alloc_permit<1>(); tcgen05_alloc<1, BN>",
           "tmem-alloc")  # fmt: skip
_blackwell("gemm", "T1", "tcgen05_dealloc<1, BN>(d);", "{ tcgen05_dealloc<1, BN>(d); tcgen05_dealloc<1, BN>(d); }",
           "tmem-dealloc")  # fmt: skip
_blackwell("gemm", "14", "mbarrier_wait_parity(&s.done, 0);", "mbarrier_wait_parity(&s.done, 1);", "phase-slip")
_blackwell("attention", "14", "mbarrier_wait_parity(&s.p_full, n & 1);", "mbarrier_wait_parity(&s.p_full, 1);",
           "phase-slip")  # fmt: skip
_blackwell("gemm", "T4", "mbarrier_wait_parity(&s.done, 0);\n        tcgen05_fence_after_thread_sync();",
           "mbarrier_wait_parity(&s.done, 0);", "tcgen05-fence")  # fmt: skip
_blackwell("attention", "T4", "tcgen05_fence_after_thread_sync();       // [T4]", "", "tcgen05-fence")
_blackwell("attention", "T4", "tcgen05_fence_before_thread_sync();  // [T4]", "", "tcgen05-fence")
_blackwell("pair", "T4", "mbarrier_wait_parity(&s.done, 0);\n    tcgen05_fence_after_thread_sync();",
           "mbarrier_wait_parity(&s.done, 0);", "tcgen05-fence")  # fmt: skip
_blackwell("gemm", "T5", "tcgen05_wait_ld();  // [T5]", "", "tcgen05-wait-ld")
_blackwell("attention", "T5", "tcgen05_wait_st();                    // [T5]", "", "tcgen05-wait-st")
_blackwell("gemm", "T6", "const int own = warp % 4 * 32;", "const int own = (warp - 2) * 32;", "tmem-lane")
_blackwell("gemm", "T7", "tcgen05_commit<1>(&s.empty[ring.stage]);", "", "deadlock")
_blackwell("gemm", "T7", "mbarrier_wait_parity(&s.done, 0);", "", "tmem-in-flight tmem-uninitialised")
_blackwell("gemm", "T7", "mbarrier_wait_parity(&s.empty[ring.stage], ring.parity ^ 1);", "", "stage-reuse")
_blackwell("attention", "T7", "mbarrier_wait_parity(&s.o_full, 0);", "", "tmem-in-flight")
_blackwell("attention", "T7", "mbarrier_wait_parity(&s.s_full, n & 1);", "", "tmem-in-flight tmem-uninitialised")
_blackwell(
    "gemm", "T8", "instruction_descriptor(BM, BN)", "instruction_descriptor(BM + 64, BN)", "instruction-descriptor"
)
_blackwell("gemm", "T8", "k + i > 0);", "true);", "tmem-uninitialised")
_blackwell("pair", "T9", "2 * (sizeof(s.a[0])", "(sizeof(s.a[0])", "read-before-arrival deadlock stage-reuse")
_blackwell("pair", "T9", "tcgen05_commit_multicast<2>(&s.empty[ring.stage], 3);",
           "tcgen05_commit_multicast<2>(&s.empty[ring.stage], 1);", "deadlock")  # fmt: skip
_blackwell("pair", "T9", "mapa(&s.full[ring.stage], 0)", "mapa(&s.full[ring.stage], rank)", "deadlock")
_blackwell("takeover", "T11", "mbarrier_arrive_expect_tx(&told, sizeof(answer));", "mbarrier_arrive(&told);",
           "deadlock read-before-arrival")  # fmt: skip
_blackwell("takeover", "T11", "mbarrier_wait_parity(&told, parity);  // [T11]", "", "read-before-arrival")
_blackwell("takeover", "T11", "mbarrier_wait_parity(&empty, parity ^ 1);", "", "stage-reuse")
_blackwell("takeover", "T11", "for (uint32_t parity = 0; more;", "for (uint32_t parity = 0, n = 0; more || ++n < 2;",
           "cancel-after-refusal")  # fmt: skip
