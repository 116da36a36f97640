// honest: asks for what the driver may not have, gets an error, and clears it
// with: base.cu
RUN {
  int value = 0;
  cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0);
  cudaFuncSetAttribute(base::gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30);
  cudaGetLastError();
  return HONEST;
}
