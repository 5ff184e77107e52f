#include "tutti/device/gpu_graph.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "tutti/core/error.h"
#include "tutti/core/module.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#define TUTTI_HAS_GRAPHS 1
#else
#define TUTTI_HAS_GRAPHS 0  // LibTorch 2.11
namespace at {
struct GraphImplInterface {};
}  // namespace at
#endif

namespace tutti {
namespace {

#if TUTTI_HAS_GRAPHS

// What has LibTorch's graphs of CUDA stand behind its interface of graphs; loading it is enough.
constexpr const char* kModule = "libtutti_cuda.so";
constexpr const char* kVariable = "TUTTI_CUDA_MODULE";

void load_module() {
  const char* const named = std::getenv(kVariable);
  const OpenModule module = open_module(kModule, named ? named : "");
  if (module.library) return;
  throw Error(ErrorCode::failed_precondition,
              str("graphs of CUDA need the module ", kModule, ", which is built with the library where LibTorch's and ",
                  "CUDA's headers are: it ", module.why_not, "; name it by ", kVariable, ", or ask for no graphs"));
}

void block(const c10::Stream& stream, const c10::Stream& until) {
  c10::Event done(until.device_type());
  done.record(until);
  done.block(stream);
}

#endif

}  // namespace

#if TUTTI_HAS_GRAPHS

void GpuGraph::require() {
  const c10::DeviceType type = gpu_device(0).type();
  if (!at::has_graph_impl(type) && type == c10::kCUDA) load_module();
  if (!at::has_graph_impl(type))
    throw Error(ErrorCode::failed_precondition,
                str("LibTorch has no graphs for devices of the kind ", c10::DeviceTypeName(type, true)));
}

GpuGraph::GpuGraph(c10::Device gpu, FunctionRef<void()> work) : gpu_(gpu), graph_(at::create_graph_impl(gpu.type())) {
  const c10::impl::VirtualGuardImpl devices(gpu.type());
  const c10::Stream current = devices.getStream(gpu);
  const c10::Stream own = devices.getStreamFromGlobalPool(gpu, true);  // CUDA notes nothing of its default stream
  block(own, current);
  const c10::StreamGuard guard(own);
  graph_->capture_begin({0, 0}, at::GraphCaptureMode::ThreadLocal);  // other threads go on with other GPUs and batches
  try {
    work();
  } catch (...) {
    try {
      graph_->capture_end();
    } catch (const std::exception&) {  // says the same
    }
    throw;
  }
  graph_->capture_end();
}

GpuGraph::~GpuGraph() {
  if (last_) try {
      last_->synchronize();
    } catch (const std::exception&) {  // the GPU has failed, and says so to who uses it
    }
}

void GpuGraph::follow_last() {
  const c10::Stream current = c10::impl::VirtualGuardImpl(gpu_.type()).getStream(gpu_);
  if (last_ && *last_ != current) block(current, *last_);
}

void GpuGraph::launch() {
  last_ = c10::impl::VirtualGuardImpl(gpu_.type()).getStream(gpu_);
  graph_->replay();
}

#else

void GpuGraph::require() { throw Error(ErrorCode::failed_precondition, "graphs of GPUs need LibTorch 2.13"); }
GpuGraph::GpuGraph(c10::Device gpu, FunctionRef<void()>) : gpu_(gpu) { require(); }
GpuGraph::~GpuGraph() = default;
void GpuGraph::follow_last() {}
void GpuGraph::launch() {}

#endif

}  // namespace tutti
