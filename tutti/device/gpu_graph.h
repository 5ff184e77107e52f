#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "tutti/core/function_ref.h"

namespace at {
struct GraphImplInterface;
}

namespace tutti {

// Work that a GPU was given once, to be given again in one call: a CUDA graph. It works on the memory that it was given
// then; what it allocates is the graph's own, and stays as long as the graph is there, or a tensor in it.
// Threads: one at a time.
class GpuGraph {
 public:
  // Throws: failed_precondition where LibTorch has no graphs for this process's kind of GPU, and none are to be had.
  static void require();

  // Notes what `work` gives the GPU, instead of having it done. Requires: require(). Throws: what `work` throws;
  // c10::Error where it does what is no work for a GPU alone, as to wait for it.
  GpuGraph(c10::Device gpu, FunctionRef<void()> work);
  // Waits until the GPU has done it.
  ~GpuGraph();
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;

  // Has the thread's current stream of the GPU wait until the last launch has been done, and what was then given to the
  // same stream.
  void follow_last();
  // In the current stream. Requires: follow_last(), before anything that the graph works on was touched.
  void launch();

 private:
  const c10::Device gpu_;
  std::unique_ptr<at::GraphImplInterface> graph_;
  std::optional<c10::Stream> last_;  // in which it was launched
};

}  // namespace tutti
