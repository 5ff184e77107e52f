#include "tutti/function/saved_values.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

thread_local std::shared_ptr<SavedValues> t_values;

using MakeHook = std::unique_ptr<SavedVariableHooks> (*)(std::shared_ptr<SavedValues> values);

// LibTorch asks its engine who keeps what graphs save. All but that is the business of the engine that was there.
class AskedEngine final : public Engine {
 public:
  AskedEngine(Engine& other, MakeHook make_hook) : other_(other), make_hook_(make_hook) {}

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return other_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task, decltype(torch::autograd::Edge::function) root,
      torch::autograd::InputBuffer&& inputs) override {
    return other_.execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return other_.make_anomaly_metadata();
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    return t_values ? make_hook_(t_values) : other_.get_default_saved_variable_hooks();
  }

 private:
  Engine& other_;
  MakeHook make_hook_;
};

AskedEngine* g_engine = nullptr;  // lives as long as the process, as the engine does

}  // namespace

class SavedValues::Hook final : public SavedVariableHooks {
 public:
  explicit Hook(std::shared_ptr<SavedValues> values) : values_(std::move(values)) {}
  ~Hook() override {
    if (place_ >= 0) values_->forget(static_cast<size_t>(place_));
  }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  void call_pack_hook(const Tensor& tensor) override { place_ = static_cast<int64_t>(values_->keep(tensor)); }
  Tensor call_unpack_hook() override { return values_->give(static_cast<size_t>(place_)); }

 private:
  std::shared_ptr<SavedValues> values_;
  int64_t place_ = -1;
};

SavedValues::Guard::Guard(std::shared_ptr<SavedValues> values) : before_(std::exchange(t_values, std::move(values))) {
  if (!t_values) return;
  static std::once_flag once;
  std::call_once(once, [] {
    g_engine = new AskedEngine(Engine::get_default_engine(), [](std::shared_ptr<SavedValues> kept_in) {
      return std::unique_ptr<SavedVariableHooks>(std::make_unique<Hook>(std::move(kept_in)));
    });
    torch::autograd::set_default_engine_stub([]() -> Engine& { return *g_engine; });
  });
}

SavedValues::Guard::~Guard() { t_values = std::move(before_); }

SavedValues::Source::Source(SavedValues& values, Give give) : values_(values), give_(give) { values_.source_ = &give_; }

SavedValues::Source::~Source() { values_.source_ = nullptr; }

// Of the tensor no more than its value and the count of its versions, as a graph that saves its own result must not.
size_t SavedValues::keep(const Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({tensor.tensor_data(), tensor.unsafeGetTensorImpl()->version_counter().current_version()});
  return entries_.size() - 1;
}

Tensor SavedValues::give(size_t place) {
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    entry = entries_[place];
  }
  if (entry.number < 0) {
    check_version(entry.value, entry.value.unsafeGetTensorImpl()->version_counter().current_version(), entry.version);
    return entry.value;
  }
  if (!source_)
    throw Error(ErrorCode::failed_precondition,
                "function: something outside keeps a graph that was made in a recorded function; return the tensor");
  return (*source_)(static_cast<size_t>(entry.number));
}

void SavedValues::forget(size_t place) {
  Tensor dropped;
  const std::lock_guard lock(mutex_);
  entries_[place].kept = false;
  dropped = std::move(entries_[place].value);
}

std::vector<Tensor> SavedValues::values() {
  const std::lock_guard lock(mutex_);
  std::vector<Tensor> values;
  for (const Entry& entry : entries_) {
    if (!entry.kept) continue;
    const bool written = entry.value.unsafeGetTensorImpl()->version_counter().current_version() != entry.version;
    values.push_back(written ? Tensor() : entry.value);
  }
  return values;
}

void SavedValues::let_go() {
  const std::lock_guard lock(mutex_);
  int number = 0;
  for (Entry& entry : entries_) {
    if (!entry.kept) continue;
    entry.number = number++;
    entry.value.reset();
  }
}

void check_version(const Tensor& value, uint32_t now, uint32_t saved) {
  TORCH_CHECK(now == saved,
              "one of the variables needed for gradient computation has been modified by an inplace operation: [",
              value.toString(), " ", value.sizes(), "] is at version ", now, "; expected version ", saved,
              " instead. It was saved when a recorded function was called");
}

}  // namespace tutti
