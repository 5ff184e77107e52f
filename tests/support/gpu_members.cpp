#include "tests/support/gpu_members.h"

#include <ATen/ops/from_blob.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tests/support/ring_members.h"
#include "tests/support/temporary_folder.h"
#include "tutti/collectives/nccl/nccl_group.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"

namespace tutti {
namespace {

using Kind = CollectiveKind;

int64_t input_elements(const Collective& call, int size) {
  if (call.kind == Kind::receive || call.kind == Kind::barrier) return 0;
  return call.kind == Kind::reduce_scatter || call.kind == Kind::all_to_all ? call.count * size : call.count;
}

int64_t output_elements(const Collective& call, int size) {
  if (call.kind == Kind::send || call.kind == Kind::barrier) return 0;
  return call.kind == Kind::all_gather || call.kind == Kind::all_to_all ? call.count * size : call.count;
}

// Buffers in host memory and their place on the GPU, which is one where they overlap.
class Mirrored {
 public:
  Mirrored(const Collective& call, int size, at::Device gpu)
      : input_{static_cast<std::byte*>(const_cast<void*>(call.input)), bytes(call, input_elements(call, size))},
        output_{static_cast<std::byte*>(call.output), bytes(call, output_elements(call, size))} {
    const bool overlap = input_.bytes > 0 && output_.bytes > 0 && input_.begin < output_.begin + output_.bytes &&
                         output_.begin < input_.begin + input_.bytes;
    if (overlap) {
      std::byte* const begin = std::min(input_.begin, output_.begin);
      const auto end = std::max(input_.begin + input_.bytes, output_.begin + output_.bytes);
      const Range both{begin, end - begin};
      input_.on_gpu = output_.on_gpu = copy_of(both, gpu);
      input_.offset = input_.begin - begin;
      output_.offset = output_.begin - begin;
    } else {
      input_.on_gpu = copy_of(input_, gpu);
      output_.on_gpu = copy_of(output_, gpu);
    }
  }

  const void* input() const { return input_.place(); }
  void* output() const { return output_.place(); }
  void copy_back() const {
    if (output_.bytes == 0) return;
    host(output_).copy_(output_.on_gpu.narrow(0, output_.offset, output_.bytes));
  }

 private:
  struct Range {
    std::byte* begin;
    int64_t bytes;
    at::Tensor on_gpu = {};
    int64_t offset = 0;

    void* place() const { return bytes == 0 ? nullptr : static_cast<std::byte*>(on_gpu.mutable_data_ptr()) + offset; }
  };

  static int64_t bytes(const Collective& call, int64_t elements) {
    return elements * static_cast<int64_t>(size_of(call.dtype));
  }
  static at::Tensor host(const Range& range) { return at::from_blob(range.begin, {range.bytes}, at::kByte); }
  static at::Tensor copy_of(const Range& range, at::Device gpu) {
    if (range.bytes == 0 || !range.begin) return {};
    return host(range).to(gpu);
  }

  Range input_, output_;
};

class GpuMember final : public Group {
 public:
  explicit GpuMember(std::unique_ptr<Group> group) : Group(group->rank(), group->size()), group_(std::move(group)) {}
  std::optional<int> device() const override { return group_->device(); }
  void abort(const std::string& cause) override { group_->abort(cause); }
  std::optional<Error> obstacle_to(const Collective& call) override { return group_->obstacle_to(call); }

 protected:
  void execute(const Collective& call) override {
    if (call.place != BufferPlace::host || call.kind == Kind::barrier) return group_->run(call);
    const Mirrored buffers(call, size(), gpu_device(*device()));
    Collective on_gpu = call;
    on_gpu.place = BufferPlace::device;
    if (call.input) on_gpu.input = buffers.input();
    if (call.output) on_gpu.output = buffers.output();
    group_->run(on_gpu);
    buffers.copy_back();
  }

 private:
  const std::unique_ptr<Group> group_;
};

}  // namespace

bool a_process_sees_a_gpu() {
  static const bool sees = [] {
    const pid_t child = fork();
    if (child == 0) _exit(num_gpus() == 0);
    int status = 0;
    return waitpid(child, &status, 0) == child && status == 0;
  }();
  return sees;
}

Groups nccl_of_processes(int size, std::chrono::milliseconds timeout) {
  const auto folder = std::make_shared<TemporaryFolder>();
  Groups groups;
  for (int rank = 0; rank < size; ++rank)
    groups.push_back(std::make_unique<LaterMember>(rank, size, [=]() -> std::unique_ptr<Group> {
      setenv("NCCL_HOSTID", str("host ", rank).c_str(), 1);
      auto companion = join_ring(ring_in(folder->path()), rank, size, {.timeout = timeout});
      return std::make_unique<GpuMember>(nccl_group(std::move(companion), gpu_device(0), {.timeout = timeout}));
    }));
  return groups;
}

}  // namespace tutti
