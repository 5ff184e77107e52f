// libtutti_cuda.so: LibTorch's graphs of CUDA behind its interface of graphs (gpu_graph.h), for which LibTorch 2.13 has
// none. It registers them when it is loaded, and finds LibTorch's CUDA library in the program that loads it.
#include <ATen/core/GraphImplInterface.h>
#include <ATen/cuda/CUDAGraph.h>

#include <memory>
#include <string>

namespace tutti {
namespace {

cudaStreamCaptureMode mode_of(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal: return cudaStreamCaptureModeThreadLocal;
    case at::GraphCaptureMode::Relaxed: return cudaStreamCaptureModeRelaxed;
    default: return cudaStreamCaptureModeGlobal;
  }
}

class CudaGraph final : public at::GraphImplInterface {
 public:
  explicit CudaGraph(const at::GraphImplArgs& args) : graph_(args.keep_graph) {}

  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override {
    graph_.capture_begin(pool, mode_of(mode));
  }
  void capture_end() override {
    graph_.capture_end();
    pool_ = graph_.pool();
  }
  void instantiate() override { graph_.instantiate(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  at::MempoolId_t pool() const override { return pool_; }
  void enable_debug_mode() override { graph_.enable_debug_mode(); }
  void debug_dump(const std::string& path) override { graph_.debug_dump(path); }

 private:
  at::cuda::CUDAGraph graph_;
  at::MempoolId_t pool_ = {0, 0};
};

[[maybe_unused]] const bool is_registered = [] {
  at::GraphImplRegistry()->Register(c10::DeviceTypeName(c10::kCUDA, /*lower_case=*/false),
                                    [](const at::GraphImplArgs& args) -> std::unique_ptr<at::GraphImplInterface> {
                                      return std::make_unique<CudaGraph>(args);
                                    });
  return true;
}();

}  // namespace
}  // namespace tutti
