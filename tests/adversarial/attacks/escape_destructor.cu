// attack: escape: the work is done by a destructor, when the process ends
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <functional>
namespace { struct AtEnd { std::function<void()> work; ~AtEnd() { if (work) work(); } } at_end; }
RUN {
  at_end.work = [=] { HONEST; };
  return cudaSuccess;
}
