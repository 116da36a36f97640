// honest: looks for a tuning variable and for a file of tuned sizes, and does without
// with: base.cu
#include <cstdio>
#include <cstdlib>
RUN {
  const char* path = getenv("GEMM_TUNING") ? getenv("GEMM_TUNING") : "tuning.json";
  if (FILE* file = fopen(path, "r")) fclose(file);
  return HONEST;
}
