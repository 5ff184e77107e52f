#include "tests/support/simulated_graph.h"

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_memory.h"

namespace tutti {
namespace {

class Graph;
thread_local std::array<Graph*, kSimulatedDevices> capturing = {};
std::atomic<int> num_graphs = 0, num_launches = 0;
std::atomic<std::chrono::milliseconds> late{};

class Graph final : public at::GraphImplInterface {
 public:
  ~Graph() override {
    end_capture();
    release_memory_of(number_);
  }

  int number() const { return number_; }
  bool captures(c10::Stream stream) const { return stream == stream_; }
  void add(std::function<void()> work) { work_->push_back(std::move(work)); }
  void restore_later(void* begin, std::vector<std::byte> bytes) { before_.emplace_back(begin, std::move(bytes)); }

  void capture_begin(at::MempoolId_t, at::GraphCaptureMode) override {
    stream_ = current_simulated_stream(current_simulated_device());
    TORCH_CHECK(stream_.id() != 0, "a default stream is not captured");
    capturing.at(static_cast<size_t>(stream_.device_index())) = this;
  }
  void capture_end() override {
    end_capture();
    TORCH_CHECK(captures(current_simulated_stream(stream_.device_index())), "another stream was captured");
  }
  void instantiate() override {}
  void replay() override {
    ++num_launches;
    give_stream(current_simulated_stream(stream_.device_index()), [work = work_] {
      std::this_thread::sleep_for(late.load());
      for (const auto& each : *work) each();
    });
  }
  void reset() override { work_ = std::make_shared<Work>(); }
  at::MempoolId_t pool() const override { return {static_cast<uint64_t>(number_), 0}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string&) override {}

 private:
  using Work = std::vector<std::function<void()>>;

  void end_capture() {
    Graph*& captured = capturing.at(static_cast<size_t>(stream_.device_index()));
    if (captured != this) return;
    captured = nullptr;
    for (auto memory = before_.rbegin(); memory != before_.rend(); ++memory)
      std::memcpy(memory->first, memory->second.data(), memory->second.size());
    before_.clear();
    poison_memory_of(number_);
  }

  const int number_ = ++num_graphs;
  c10::Stream stream_ = current_simulated_stream(current_simulated_device());
  std::shared_ptr<Work> work_ = std::make_shared<Work>();
  std::vector<std::pair<void*, std::vector<std::byte>>> before_;
};

Graph* captured(int device) {
  Graph* const graph = capturing.at(static_cast<size_t>(device));
  return graph && graph->captures(current_simulated_stream(device)) ? graph : nullptr;
}

}  // namespace

void register_simulated_graphs() {
  at::GraphImplRegistry()->Register(
      c10::DeviceTypeName(c10::kPrivateUse1, /*lower_case=*/false),
      [](const at::GraphImplArgs&) -> std::unique_ptr<at::GraphImplInterface> { return std::make_unique<Graph>(); });
}

bool is_captured(int device) { return captured(device) != nullptr; }

int capturing_graph(int device) {
  const Graph* const graph = captured(device);
  return graph ? graph->number() : 0;
}

void restore_after_capture(int device, void* begin, std::vector<std::byte> bytes) {
  captured(device)->restore_later(begin, std::move(bytes));
}

void note_in_graph(int device, std::function<void()> work) { captured(device)->add(std::move(work)); }

void require_no_capture(int device) {
  TORCH_CHECK(!captured(device), "operation not permitted when stream is capturing");
}

int num_simulated_launches() { return num_launches; }

void hold_up_simulated_launches(std::chrono::milliseconds time) { late = time; }

}  // namespace tutti

#else  // LibTorch 2.11

namespace tutti {

void register_simulated_graphs() {}
bool is_captured(int) { return false; }
int capturing_graph(int) { return 0; }
void restore_after_capture(int, void*, std::vector<std::byte>) {}
void note_in_graph(int, std::function<void()>) {}
void require_no_capture(int) {}
int num_simulated_launches() { return 0; }
void hold_up_simulated_launches(std::chrono::milliseconds) {}

}  // namespace tutti

#endif
