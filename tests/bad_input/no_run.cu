// expect: compile_error
// A kernel, but no run.
__global__ void touch(__nv_bfloat16* C) { C[threadIdx.x] = __float2bfloat16(1.f); }
