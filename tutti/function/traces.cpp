#include "tutti/function/traces.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/compare.h"
#include "tutti/function/recorder.h"

namespace tutti {
namespace {

std::atomic<bool> g_eagerly{false};

constexpr int kRecordingsToSettle = 3;

void check_arguments(const std::string& name, const FlatArguments& arguments) {
  for (const Tensor& tensor : arguments.tensors) {
    if (!tensor.defined()) continue;
    const bool plain =
        tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_quantized();
    if (!plain)
      throw Error(ErrorCode::unimplemented,
                  tutti::str(name, ": an argument of shape ", str_list(tensor.sizes()), ", layout ", tensor.layout(),
                             ", on ", tensor.device(),
                             "; dense plain tensors on the CPU can be recorded. run_functions_eagerly(true) "
                             "runs the function as it is"));
    if (tensor.requires_grad())
      throw Error(ErrorCode::unimplemented,
                  str(name, ": an argument of shape ", str_list(tensor.sizes()),
                      " requires a gradient, which cannot go through a recorded function yet; compute the gradient "
                      "inside of it, and pass detach()"));
  }
}

// Whether both recordings began with gradients at the same variables, as far as that is known.
bool found_same_gradients(const Program& first, const Program& second) {
  return std::all_of(second.leaves.begin(), second.leaves.end(), [&](const Program::Leaf& leaf) {
    const auto same = std::find_if(first.leaves.begin(), first.leaves.end(),
                                   [&](const Program::Leaf& other) { return other.tensor.is_same(leaf.tensor); });
    return same == first.leaves.end() || same->had_gradient == leaf.had_gradient;
  });
}

void bump_version(const Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

void run_functions_eagerly(bool eagerly) { g_eagerly = eagerly; }
bool functions_run_eagerly() { return g_eagerly; }

Signature Traces::signature_of(std::type_index types, const FlatArguments& arguments) const {
  return Signature::of(types, arguments, options_.depends_on ? options_.depends_on() : 0);
}

Traces::Trace* Traces::find(const Signature& signature) const {
  for (const auto& trace : traces_)
    if (trace->signature == signature) return trace.get();
  return nullptr;
}

Traces::Trace& Traces::find_or_add(Signature signature) {
  const std::lock_guard lock(mutex_);
  if (Trace* found = find(signature)) return *found;
  if (std::ssize(traces_) >= options_.max_traces)
    throw Error(ErrorCode::resource_exhausted,
                str(options_.name, ": ", signature.to_string(), " would be recording ", traces_.size() + 1,
                    ", each for other arguments. Numbers that vary belong into tensors, and batches should be of few "
                    "sizes (batch() with drop_remainder); FunctionOptions::max_traces allows more"));
  return *traces_.emplace_back(std::make_unique<Trace>(Trace{std::move(signature)}));
}

// Each thread that calls at the same time has one.
std::unique_ptr<Replay> Traces::take_replay(Trace& trace, std::shared_ptr<void>& form) {
  const std::lock_guard lock(mutex_);
  if (!trace.ready) return nullptr;
  form = trace.form;
  std::unique_ptr<Replay> replay;
  if (trace.free.empty()) {
    replay = std::make_unique<Replay>(trace.program);
  } else {
    replay = std::move(trace.free.back());
    trace.free.pop_back();
  }
  if (replay->fits()) return replay;
  trace.ready = false;  // something outside was replaced
  trace.free.clear();
  trace.program = nullptr;
  trace.num_recordings = 0;
  return nullptr;
}

// Unless the function was recorded anew meanwhile.
void Traces::give_back(Trace& trace, std::unique_ptr<Replay> replay) {
  const std::lock_guard lock(mutex_);
  if (trace.ready && replay->program() == trace.program) trace.free.push_back(std::move(replay));
}

// A result whose graph ended in the function says so to whoever asks for its gradient.
void Traces::end_graphs(const Program& program, std::vector<Tensor>& results) const {
  if (!at::GradMode::is_enabled()) return;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!program.results[i].requires_grad || results[i].requires_grad()) continue;
    auto node = c10::make_intrusive<torch::autograd::Error>(
        str(options_.name,
            ": the gradient of a recorded function's result is asked for outside of the function; call "
            "backward() or autograd::grad() inside of it"));
    torch::autograd::set_history(results[i], node);
  }
}

// Two recordings in a row must be one program. The first may make what later ones find: an optimizer's state,
// gradients.
void Traces::accept(Trace& trace, Program program, const std::vector<std::string>& kept_outside) {
  const auto previous = std::exchange(trace.program, std::make_shared<const Program>(std::move(program)));
  const bool made_state = std::exchange(trace.made_state, !kept_outside.empty());
  ++trace.num_recordings;
  if (!previous) return;
  const auto fail = [&](const std::string& text) {
    trace.program = nullptr;
    trace.num_recordings = 0;
    throw Error(ErrorCode::failed_precondition, options_.name + ": " + text);
  };
  const auto differs = difference(*previous, *trace.program);
  const bool may_settle = made_state && trace.num_recordings < kRecordingsToSettle;
  if (differs && (may_settle || !found_same_gradients(*previous, *trace.program))) return;
  if (differs)
    fail(str("two recordings for ", trace.signature.to_string(), " differ: ", *differs,
             ". A replay would go on with the one value. Pass what changes as an argument (a tensor, or a number that "
             "means another recording), or tell it by FunctionOptions::depends_on"));
  if (!kept_outside.empty())
    fail(str("something outside keeps a tensor that the function made (", kept_outside[0],
             "), which a replay would not renew. Return it, or write it into a tensor that is there with copy_()"));
  trace.ready = true;
}

Traces::Outcome Traces::record(Trace& trace, const FlatArguments& arguments, Body body, Form form) {
  at::autocast::clear_cache();  // casts that it keeps from before would count as the caller's tensors
  std::vector<Program::Leaf> leaves;
  {
    const std::lock_guard lock(mutex_);
    if (trace.program) leaves = trace.program->leaves;
  }
  Recorder recorder(options_.name, leaves);
  std::vector<Tensor> results;
  {
    std::vector<Tensor> copies = recorder.take_arguments(arguments.tensors);
    const RecordGuard guard(recorder);
    results = body(copies);
  }
  at::autocast::clear_cache();
  ++tracing_count_;
  Program program = recorder.finish(results);
  end_graphs(program, results);
  for (const Program::Buffer& buffer : program.buffers)  // the function wrote to another tensor on the same memory
    if (buffer.kind == Program::Buffer::Kind::argument && buffer.written)
      bump_version(arguments.tensors[static_cast<size_t>(buffer.index)]);
  const std::lock_guard lock(mutex_);
  trace.form = form();
  Outcome outcome{std::move(results), trace.form};
  accept(trace, std::move(program), recorder.kept_outside());
  return outcome;
}

Traces::Outcome Traces::call(std::type_index types, const FlatArguments& arguments, Body body, Form form) {
  check_arguments(options_.name, arguments);
  Trace& trace = find_or_add(signature_of(types, arguments));
  Outcome outcome;
  if (auto replay = take_replay(trace, outcome.form)) {
    struct GiveBack {
      Traces& traces;
      Trace& trace;
      std::unique_ptr<Replay>& replay;
      ~GiveBack() { traces.give_back(trace, std::move(replay)); }
    } const at_the_end{*this, trace, replay};
    outcome.tensors = replay->run(arguments.tensors);
    end_graphs(*replay->program(), outcome.tensors);
    return outcome;
  }
  const std::lock_guard recording(recording_);
  return record(trace, arguments, body, form);
}

std::string Traces::signatures() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& trace : traces_) text += options_.name + trace->signature.to_string() + "\n";
  return text;
}

std::shared_ptr<const Program> Traces::find_program(std::type_index types, const FlatArguments& arguments) const {
  const Signature signature = signature_of(types, arguments);
  const std::lock_guard lock(mutex_);
  const Trace* found = find(signature);
  return found ? found->program : nullptr;
}

}  // namespace tutti
