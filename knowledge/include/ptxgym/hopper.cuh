// Everything of this folder that Hopper (sm_90a) has.
#pragma once
#include "bulk.cuh"
#include "cluster.cuh"
#include "fence.cuh"
#include "math.cuh"
#include "matrix.cuh"
#include "mbarrier.cuh"
#include "swizzle.cuh"
#include "tensor_map.cuh"
#include "tma.cuh"
#include "warp.cuh"
#include "wgmma.cuh"
