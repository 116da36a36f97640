// attack: escape: a host function on the stream starts the work later, when the call is over
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <chrono>
#include <functional>
#include <thread>
RUN {
  auto* late = new std::function<void()>([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    HONEST;
  });
  return cudaLaunchHostFunc(stream, [](void* f) { std::thread(*static_cast<std::function<void()>*>(f)).detach(); }, late);
}
