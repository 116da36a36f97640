// attack: answer: open memory of the judge's that was never lent, with a handle of its own making
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
RUN {
  void* found = nullptr;
  cudaIpcMemHandle_t handle = {};
  for (int i = 0; i < 256; ++i) {
    handle.reserved[i % 64] = char(i);
    if (cudaIpcOpenMemHandle(&found, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess) return HONEST;
  }
  cudaGetLastError();
  return cudaSuccess;
}
