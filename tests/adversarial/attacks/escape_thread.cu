// attack: escape: a thread launches the work after run has returned
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <chrono>
#include <thread>
RUN {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    HONEST;
  }).detach();
  return cudaSuccess;
}
