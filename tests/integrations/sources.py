"""Kernels and answers that cost little to judge."""

COMPILE_ERROR = "int x = ;"

# Compiles; on the simulator it fails in the memory stage, and without a device nobody can tell.
OUT_OF_BOUNDS = """\
__global__ void beyond(__nv_bfloat16* C, size_t n) { C[n + threadIdx.x] = __float2bfloat16(1.f); }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
  beyond<<<1, 1, 0, stream>>>(C, size_t(M) * N);
  return cudaGetLastError();
}
"""

GEMM = "PTXBench-GEMM-H100"


def fenced(source: str) -> str:
    """A source as a model gives it."""
    return f"Here it is.\n\n```cpp\n{source}```\n"
