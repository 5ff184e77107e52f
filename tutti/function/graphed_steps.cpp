#include "tutti/function/graphed_steps.h"

#include <ATen/ops/_foreach_copy.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/function/replay_memory.h"

namespace tutti {
namespace {

using Role = GraphedSteps::Role;

constexpr int kRunsBefore = 2;  // the first ones, in which LibTorch prepares what it needs
constexpr int kMostGraphs = 4;  // in a row, none of which was launched twice

std::atomic<bool> g_always_pays{false};

c10::DataPtr take_data(const c10::Storage& storage) {
  return std::move(storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks());
}

void point(const c10::Storage& storage, const c10::Storage& at) {
  storage.set_data_ptr_noswap({const_cast<void*>(at.data()), storage.device()});
}

bool meet(const GraphedSteps::Use& a, const GraphedSteps::Use& b) {
  const auto begin = [](const GraphedSteps::Use& use) { return static_cast<const std::byte*>(use.storage.data()); };
  return begin(a) < begin(b) + b.bytes && begin(b) < begin(a) + a.bytes;
}

// Meanwhile the steps find what is copied where the graph has it.
class InGraph {
 public:
  void put(const c10::Storage& storage, const c10::Storage& in_graph) {
    elsewhere_.emplace_back(storage, take_data(storage));
    point(storage, in_graph);
  }
  ~InGraph() {
    for (auto& [storage, data] : elsewhere_) storage.set_data_ptr_noswap(std::move(data));
  }

 private:
  std::vector<std::pair<c10::Storage, c10::DataPtr>> elsewhere_;
};

}  // namespace

bool GraphedSteps::pays(size_t num_steps, const std::vector<Use>& uses) {
  const auto has = [&](Role role) { return std::ranges::find(uses, role, &Use::role) != uses.end(); };
  const size_t num_launches = 1 + (has(Role::copied) ? 1 : 0) + (has(Role::given) ? 1 : 0);
  return num_steps > num_launches || g_always_pays;
}

void GraphedSteps::always_pays(bool always) { g_always_pays = always; }

GraphedSteps::GraphedSteps(c10::Device gpu, std::vector<Use> uses) : gpu_(gpu) {
  for (Use& use : uses) {
    if (use.bytes == 0) continue;
    Tensor here = bytes_on(use.storage, use.bytes);
    parts_.push_back({std::move(use), std::move(here)});
  }
}

bool GraphedSteps::launch(FunctionRef<void()> steps) {
  if (num_runs_ < kRunsBefore) return ++num_runs_, false;
  if (failure_ || overlaps()) return false;
  end_shares();
  if (graph_ && is_in_place()) {
    num_graphs_ = 0;
    graph_->follow_last();
  } else {
    graph_ = nullptr;
  }
  copy_there();
  if (!graph_ && !make_graph(steps)) return false;
  graph_->launch();
  copy_back();
  return true;
}

// As LibTorch's ops do of what they write: memory that another tensor has, too, as long as nobody writes, is no place.
void GraphedSteps::end_shares() {
  for (const Part& part : parts_)
    if (part.use.role == Role::fixed && part.use.is_written) part.use.storage.mutable_data();
}

bool GraphedSteps::is_in_place() const {
  return std::ranges::all_of(
      parts_, [](const Part& part) { return part.use.role != Role::fixed || part.use.storage.data() == part.place; });
}

// Whether the steps would see in what is copied what they write elsewhere.
bool GraphedSteps::overlaps() const {
  const auto is_written_in = [](const Part& part) { return part.use.role == Role::fixed && part.use.is_written; };
  return std::ranges::any_of(parts_, [&](const Part& copied) {
    return copied.use.role == Role::copied && std::ranges::any_of(parts_, [&](const Part& other) {
             return is_written_in(other) && meet(copied.use, other.use);
           });
  });
}

void GraphedSteps::copy_there() {
  if (before_.to.empty())
    for (Part& part : parts_) {
      if (part.use.role != Role::copied) continue;
      part.in_graph = storage_of(part.use.bytes, allocate_on(gpu_, part.use.bytes));
      before_.to.push_back(bytes_on(part.in_graph, part.use.bytes));
      before_.from.push_back(part.here);
    }
  if (!before_.to.empty()) at::_foreach_copy_(before_.to, before_.from, /*non_blocking=*/true);
}

bool GraphedSteps::make_graph(FunctionRef<void()> steps) try {
  if (num_graphs_++ == kMostGraphs)
    throw Error(ErrorCode::failed_precondition, "what it writes lies elsewhere in each run");
  {
    InGraph in_graph;
    for (Part& part : parts_) {
      part.place = part.use.storage.data();
      if (part.use.role == Role::copied) in_graph.put(part.use.storage, part.in_graph);
    }
    graph_ = std::make_unique<GpuGraph>(gpu_, steps);
    for (Part& part : parts_)
      if (part.use.role == Role::made || part.use.role == Role::given)
        part.in_graph = storage_of(part.use.bytes, take_data(part.use.storage));
  }
  plan_copies_back();
  return true;
} catch (const std::exception&) {
  failure_ = std::current_exception();
  return false;
}

void GraphedSteps::plan_copies_back() {
  after_ = {};
  for (const Part& part : parts_) {
    const bool is_back = part.use.role == Role::copied && part.use.is_written && !part.use.is_freed;
    if (part.use.role != Role::given && !is_back) continue;
    after_.to.push_back(part.here);
    after_.from.push_back(bytes_on(part.in_graph, part.use.bytes));
  }
}

void GraphedSteps::copy_back() {
  for (const Part& part : parts_) {
    if (part.use.role == Role::made) point(part.use.storage, part.in_graph);
    if (part.use.role == Role::given) part.use.storage.set_data_ptr_noswap(allocate_on(gpu_, part.use.bytes));
    if (part.use.is_freed) part.use.storage.set_data_ptr_noswap({nullptr, gpu_});
  }
  if (!after_.to.empty()) at::_foreach_copy_(after_.to, after_.from, /*non_blocking=*/true);
}

}  // namespace tutti
