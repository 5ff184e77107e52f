#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tutti/function/function_options.h"
#include "tutti/function/geometry.h"
#include "tutti/function/inner_graph.h"
#include "tutti/function/program.h"
#include "tutti/function/program_runner.h"

namespace tutti {

// A value that a call left for its backward pass, and the version that it had then.
struct SavedValue {
  Tensor tensor;                                     // undefined: the function itself wrote to it afterwards
  std::optional<c10::VariableVersion> version = {};  // of what somebody outside may write to
  uint32_t saved_version = 0;

  // Throws LibTorch's error where it was written since.
  const Tensor& get() const;
};

// The backward passes through calls of one function: a pass is recorded twice for each kind of gradients that it is
// given (which are there, their shapes and strides, which are wanted), and the two are compared; from then on it is
// replayed. Threads: any number may call at once.
class FunctionGradient {
 public:
  explicit FunctionGradient(const FunctionOptions& options)
      : name_(options.name), if_unrecordable_(options.if_unrecordable), gpu_graphs_(options.gpu_graphs) {}

  const std::string& name() const { return name_; }
  // The gradients of the graph's inlets, as LibTorch's engine gives them without a graph of their own.
  std::vector<Tensor> operator()(InnerGraph& graph, const std::vector<Tensor>& gradients,
                                 const std::vector<SavedValue>& saved, const std::vector<bool>& needed);

 private:
  struct Kind {
    std::vector<std::optional<Geometry>> gradients;
    std::vector<bool> needed;
    int64_t modes;

    bool operator==(const Kind&) const = default;
  };
  struct Recording {
    std::shared_ptr<const Program> program = {};
    std::vector<bool> used_saved = {};  // values
    std::vector<int> same_as = {};      // by result: the gradient, or behind these the result, that it is; -1: none
    std::vector<bool> shares = {};      // by result: whether its memory is another one's, too
  };
  struct Trace {
    Kind kind;
    std::shared_ptr<const Recording> recording = {};  // the last one
    bool ready = false;                               // two agreed
    std::vector<std::unique_ptr<ProgramRunner>> free = {};
  };
  class Pass;

  Trace& find_or_add(Kind kind);
  std::unique_ptr<ProgramRunner> take_replay(Trace& trace, std::shared_ptr<const Recording>& recording);
  void give_back(Trace& trace, std::unique_ptr<ProgramRunner> replay);
  std::vector<Tensor> record(Trace& trace, Pass& pass);
  void accept(Trace& trace, Recording recorded, const std::vector<std::string>& kept_outside);

  std::string name_;
  std::function<void(const Error& why)> if_unrecordable_;
  bool gpu_graphs_;
  std::mutex mutex_;                  // of traces_ and what they have
  std::mutex recording_;              // one thread records
  std::atomic<bool> gave_up_{false};  // it cannot be recorded, and LibTorch runs it
  std::vector<std::unique_ptr<Trace>> traces_;
};

}  // namespace tutti
