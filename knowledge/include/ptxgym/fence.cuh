// Fences between the two ways to shared memory: the generic proxy (loads, stores, ldmatrix, stmatrix) and the
// asynchronous proxy (TMA, bulk copies, wgmma and tcgen05 operands).
#pragma once
#include "common.cuh"

namespace ptxgym {

// Ordinary writes to this CTA's shared memory become visible to TMA and to tensor-core operands. Every thread that
// wrote, *then* a barrier, then one thread issues.
PTXGYM_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same for global memory that a bulk copy will read or write. Every thread that wrote.
PTXGYM_DEVICE void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// Order ordinary accesses among the CTAs of the cluster, or of the GPU (hand-written flags in global memory).
PTXGYM_DEVICE void fence_acq_rel_cluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }
PTXGYM_DEVICE void fence_acq_rel_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

}  // namespace ptxgym
