"""Mutants of kernels without copies by hardware: plain CUDA and Ampere."""

from tests.corpus.mutants.mutant import SYNC, Mutants

MUTANTS = Mutants()
mutant = MUTANTS.add

# -- plain CUDA ----------------------------------------------------------------------------------------
at = "void vector_add"
mutant("vector_add", "no bounds check", "if (i < n) c[i]", "c[i]", "out-of-bounds", within=at)
mutant("vector_add", "off by one element", "c[i] = a[i]", "c[i + 1] = a[i]", "out-of-bounds", within=at)
mutant("vector_add", "address in bytes", "c[i] = a[i]", "*(float*)((char*)c + i) = a[i]", "misaligned", within=at)
mutant("vector_add", "null pointer", "c[i] = a[i]", "((float*)((size_t)c & 255))[i] = a[i]", "out-of-bounds", within=at)
mutant("vector_add", "negative index", "c[i] = a[i]", "c[i] = a[i - 900000]", "out-of-bounds", within=at)
mutant(
    "vector_add",
    "endless loop",
    "c[i] = a[i] + b[i];",
    "while (((volatile float*)a)[0] != 1e30f); if (i < n) c[i] = a[i] + b[i];",
    "endless-loop",
    within=at,
)
mutant("vector_add", "trap", "c[i] = a[i]", 'asm volatile("trap;"); c[i] = a[i]', "trap", within=at)
at = "void tiled_gemm"
mutant("tiled_gemm", "no barrier after the fill", f"{SYNC}  // tile is complete", "", "shared-race", within=at)
mutant("tiled_gemm", "no barrier before the next fill", f"{SYNC}  // tile is used up", "", "shared-race", within=at)
mutant("tiled_gemm", "barrier of one warp", f"{SYNC}  // tile is complete", "__syncwarp();", "shared-race", within=at)
mutant(
    "tiled_gemm",
    "half the threads at the barrier",
    f"{SYNC}  // tile is used up",
    'if (y < 8) asm volatile("bar.sync 0, 256;");',
    "deadlock",
    within=at,
)
mutant("tiled_gemm", "a tile too narrow", "a[16][16], b[16][16]", "a[16][16], b[8][16]", "out-of-bounds", within=at)
mutant(
    "tiled_gemm", "one operand is not filled", "b[y][x] = B[(k0 + y) * N + col];", "", "uninitialised-shared", within=at
)
at = "void softmax"
mutant(
    "softmax",
    "no barrier after the maxima",
    "if (lane == 0) part[warp] = top;\n    __syncthreads();",
    "if (lane == 0) part[warp] = top;",
    "shared-race",
    "uninitialised-shared",
    within=at,
)
mutant(
    "softmax",
    "buffer reused too early",
    "top = fmaxf(top, part[i]);\n    __syncthreads();",
    "top = fmaxf(top, part[i]);",
    "shared-race",
    within=at,
)
mutant(
    "softmax",
    "no barrier after the sums",
    "if (lane == 0) part[warp] = sum;\n    __syncthreads();",
    "if (lane == 0) part[warp] = sum;",
    "shared-race",
    within=at,
)
at = "void histogram"
mutant(
    "histogram",
    "bins are not cleared",
    "if (threadIdx.x < 64) local[threadIdx.x] = 0;",
    "",
    "uninitialised-shared",
    within=at,
)
mutant("histogram", "bin outside of the table", "x[i] & 63", "x[i] & 1023", "out-of-bounds", within=at)
at = "void transpose"
mutant("transpose", "no barrier", f"{SYNC}", "", "shared-race", "uninitialised-shared", within=at)
mutant("transpose", "tile too small", "tile[32][33]", "tile[31][33]", "out-of-bounds", within=at)
at = "fibonacci"
mutant(
    "calls",
    "endless recursion",
    "n < 2 ? n : fibonacci(n - 1)",
    "n > 99 ? n : fibonacci(n - 1)",
    "stack-overflow",
    within=at,
)
at = "void constants_and_locals"
mutant(
    "constants_and_locals",
    "local array overrun",
    "stack[index[i] & 31]",
    "stack[(index[i] & 31) + 400000]",
    "out-of-bounds",
    within=at,
)
at = "void named_barriers"
mutant(
    "named_barriers",
    "full is never signalled",
    'asm volatile("bar.arrive %0, 128;" ::"r"(1 + s % 2) : "memory");',
    "",
    "deadlock",
    within=at,
)
mutant(
    "named_barriers",
    "free is never signalled",
    'if (s + 2 < steps) asm volatile("bar.arrive %0, 128;" ::"r"(3 + s % 2) : "memory");',
    "",
    "deadlock",
    within=at,
)
mutant(
    "named_barriers",
    "count of one side",
    '"bar.sync %0, 128;" ::"r"(1 + s % 2)',
    '"bar.sync %0, 160;" ::"r"(1 + s % 2)',
    "deadlock",
    "barrier-count",
    within=at,
)
at = "void grid_barrier"
mutant("grid_barrier", "one block too many is awaited", "< gridDim.x)", "< gridDim.x + 1)", "endless-loop", within=at)

# -- Ampere --------------------------------------------------------------------------------------------
at = "void __launch_bounds__(128) mma_gemm"
mutant(
    "mma_gemm", "waits for the wrong group", "cp_async_wait<1>()", "cp_async_wait<2>()", "cp-async-in-flight", within=at
)
mutant("mma_gemm", "does not wait at the end", "else cp_async_wait<0>();", "", "cp-async-in-flight", within=at)
mutant(
    "mma_gemm",
    "no barrier after the wait",
    f"{SYNC}  // stage is here",
    "",
    "shared-race",
    "cp-async-in-flight",
    within=at,
)
mutant("mma_gemm", "no barrier before the next copy", f"{SYNC}  // stage is free", "", "shared-race", within=at)
mutant("mma_gemm", "no commit", "cp_async_commit();\n    };", "};", "cp-async-in-flight", within=at)
mutant("mma_gemm", "copy to an unaligned place", "PAD = 8", "PAD = 4", "misaligned")
mutant(
    "mma_gemm",
    "reads past A",
    "A + (size_t)(row0 + r) * K + k + c",
    "A + (size_t)(row0 + r + 8) * K + k + c",
    "out-of-bounds",
    within=at,
)
