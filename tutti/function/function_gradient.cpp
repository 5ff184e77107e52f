#include "tutti/function/function_gradient.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/backward_here.h"
#include "tutti/function/compare.h"
#include "tutti/function/function_options.h"
#include "tutti/function/recordable_calls.h"
#include "tutti/function/recorder.h"
#include "tutti/function/replay.h"
#include "tutti/function/signature.h"
#include "tutti/tensor/alias.h"

namespace tutti {

const Tensor& SavedValue::get() const {
  TORCH_CHECK(tensor.defined(),
              "one of the variables needed for gradient computation has been modified by an inplace operation, in the "
              "recorded function that saved it");
  if (version) check_version(tensor, version->current_version(), saved_version);
  return tensor;
}

// One pass through the graph of one call.
class FunctionGradient::Pass {
 public:
  Pass(InnerGraph& graph, const std::vector<Tensor>& gradients, const std::vector<SavedValue>& saved,
       const std::vector<bool>& needed)
      : graph_(graph), gradients_(gradients), saved_(saved), needed_(needed) {}

  // By LibTorch, unrecorded.
  std::vector<Tensor> run() {
    auto found = graph_.run(gradients_, needed_, [&](size_t number) { return saved_[number].get(); });
    const auto same_as = identities(found, gradients_);
    const auto shares = sharing(found, same_as, arguments());
    return apart(std::move(found), shares);
  }

  // Whether a replay can read the memory of what it is given.
  bool may_be_recorded() const {
    const Tensors all = arguments();
    return std::all_of(all.begin(), all.end(), [](const Tensor& tensor) {
      return !tensor.defined() || (has_recordable_memory(tensor) && !tensor._is_zerotensor());
    });
  }

  std::vector<Tensor> record(Recorder& recorder, Recording& recorded) {
    recorded.used_saved.assign(saved_.size(), false);
    Tensors copies = recorder.take_arguments(arguments());
    const auto given = at::ArrayRef<Tensor>(copies).slice(0, gradients_.size());
    std::vector<Tensor> found;
    bool goes_on = false;
    {
      const RecordGuard guard(recorder);
      const BackwardHere backward_here;
      found = graph_.run(given, needed_, [&](size_t number) {
        saved_[number].get();
        recorded.used_saved[number] = true;
        return copies[gradients_.size() + number];
      });
      recorded.same_as = identities(found, given);
      recorded.shares = sharing(found, recorded.same_as, copies);
      goes_on = !recorder.is_over() && recorder.take_end(found);
    }
    if (!goes_on) {
      leave_copies(found, copies);
    } else {
      copies.clear();
      Tensors results(found.begin(), found.end());
      found.clear();
      recorded.program = std::make_shared<const Program>(recorder.finish(results));
      found.assign(results.begin(), results.end());
      move_to_arguments(*recorded.program, found);
    }
    return apart(identified(std::move(found), recorded.same_as), recorded.shares);
  }

  std::vector<Tensor> replay(ProgramRunner& replay, const Recording& recording) {
    for (size_t i = 0; i < saved_.size(); ++i)
      if (recording.used_saved[i]) saved_[i].get();
    const Tensors found = replay.run(arguments());
    return apart(identified({found.begin(), found.end()}, recording.same_as), recording.shares);
  }

 private:
  Tensors arguments() const {
    Tensors all(gradients_.begin(), gradients_.end());
    for (const SavedValue& value : saved_) all.push_back(value.tensor);
    return all;
  }

  // What LibTorch hands on as it is, an accumulating leaf must not take for its own.
  static std::vector<int> identities(const std::vector<Tensor>& found, at::ArrayRef<Tensor> given) {
    std::vector<Tensor> known(given.begin(), given.end());
    std::vector<int> same_as;
    for (const Tensor& gradient : found) {
      const auto same = std::find_if(known.begin(), known.end(), [&](const Tensor& other) {
        return gradient.defined() && other.is_same(gradient);
      });
      same_as.push_back(same == known.end() ? -1 : static_cast<int>(same - known.begin()));
      known.push_back(gradient);
    }
    return same_as;
  }

  std::vector<Tensor> identified(std::vector<Tensor> found, const std::vector<int>& same_as) const {
    for (size_t i = 0; i < found.size(); ++i) {
      if (same_as[i] < 0) continue;
      const auto same = static_cast<size_t>(same_as[i]);
      found[i] = same < gradients_.size() ? gradients_[same] : found[same - gradients_.size()];
    }
    return found;
  }

  // Which of the new tensors lie in memory that another one or a saved value has. In LibTorch's own graph nodes on the
  // way hold on to the tensors of such memory; behind one node, two leaves would take it for their own.
  std::vector<bool> sharing(const std::vector<Tensor>& found, const std::vector<int>& same_as,
                            at::ArrayRef<Tensor> arguments) const {
    std::unordered_set<const c10::StorageImpl*> taken;
    const auto storage_of = [](const Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); };
    for (const Tensor& saved : arguments.slice(gradients_.size()))
      if (saved.defined()) taken.insert(storage_of(saved));
    for (size_t i = 0; i < found.size(); ++i)
      if (same_as[i] >= 0 && found[i].has_storage()) taken.insert(storage_of(found[i]));
    std::vector<bool> shares;
    for (size_t i = 0; i < found.size(); ++i)
      shares.push_back(found[i].defined() && same_as[i] < 0 && found[i].has_storage() &&
                       !taken.insert(storage_of(found[i])).second && found[i].is_non_overlapping_and_dense());
    return shares;
  }

  static std::vector<Tensor> apart(std::vector<Tensor> found, const std::vector<bool>& shares) {
    for (size_t i = 0; i < found.size(); ++i)
      if (shares[i]) found[i] = found[i].clone();
    return found;
  }

  static void leave_copies(std::vector<Tensor>& found, const Tensors& copies) {
    for (Tensor& gradient : found)
      if (std::any_of(copies.begin(), copies.end(), [&](const Tensor& copy) { return are_aliases(gradient, copy); }))
        gradient = gradient.clone();
  }

  // Recorded were copies of the arguments, on their memory.
  void move_to_arguments(const Program& program, std::vector<Tensor>& found) const {
    const Tensors all = arguments();
    for (size_t i = 0; i < found.size(); ++i) {
      if (program.results[i].value < 0) continue;
      const auto& [number, geometry] = program.values[static_cast<size_t>(program.results[i].value)];
      const Program::Buffer& buffer = program.buffers[static_cast<size_t>(number)];
      if (buffer.kind == Program::Buffer::Kind::argument)
        found[i] = tensor_on_argument(all[static_cast<size_t>(buffer.index)], geometry);
    }
  }

  InnerGraph& graph_;
  const std::vector<Tensor>& gradients_;
  const std::vector<SavedValue>& saved_;
  const std::vector<bool>& needed_;
};

FunctionGradient::Trace& FunctionGradient::find_or_add(Kind kind) {
  const std::lock_guard lock(mutex_);
  for (const auto& trace : traces_)
    if (trace->kind == kind) return *trace;
  return *traces_.emplace_back(std::make_unique<Trace>(Trace{std::move(kind)}));
}

std::unique_ptr<ProgramRunner> FunctionGradient::take_replay(Trace& trace,
                                                             std::shared_ptr<const Recording>& recording) {
  const std::lock_guard lock(mutex_);
  if (!trace.ready) return nullptr;
  recording = trace.recording;
  std::unique_ptr<ProgramRunner> replay;
  if (trace.free.empty()) {
    replay = std::make_unique<Replay>(recording->program, nullptr, gpu_graphs_);
  } else {
    replay = std::move(trace.free.back());
    trace.free.pop_back();
  }
  if (replay->fits()) return replay;
  trace.ready = false;  // a hook uses something outside that was replaced
  trace.recording = nullptr;
  trace.free.clear();
  return nullptr;
}

void FunctionGradient::give_back(Trace& trace, std::unique_ptr<ProgramRunner> replay) {
  const std::lock_guard lock(mutex_);
  if (trace.ready && replay->program() == trace.recording->program) trace.free.push_back(std::move(replay));
}

void FunctionGradient::accept(Trace& trace, Recording recorded, const std::vector<std::string>& kept_outside) {
  const std::lock_guard lock(mutex_);
  const auto previous = std::exchange(trace.recording, std::make_shared<const Recording>(std::move(recorded)));
  if (!previous) return;
  const auto fail = [&](const std::string& text) {
    trace.recording = nullptr;
    throw Error(ErrorCode::failed_precondition, name_ + ": " + text);
  };
  if (const auto differs = difference(*previous->program, *trace.recording->program))
    fail(str("two recordings of its backward pass differ: ", *differs,
             ". A replay would go on with the one value; pass what changes to the function as an argument"));
  if (!kept_outside.empty())
    fail(str("something outside keeps a tensor that its backward pass made (", kept_outside[0],
             "), which a replay would not renew; a hook may write it into a tensor that is there with copy_()"));
  trace.ready = true;
}

std::vector<Tensor> FunctionGradient::record(Trace& trace, Pass& pass) {
  const std::lock_guard one_thread(recording_);
  Recorder recorder(name_ + "'s backward pass", {}, if_unrecordable_ ? Unrecordable::goes_on : Unrecordable::error);
  Recording recorded;
  auto found = pass.record(recorder, recorded);
  try {
    if (recorder.is_over()) throw *recorder.why_over();
    accept(trace, std::move(recorded), recorder.kept_outside());
  } catch (const Error& why) {
    if (!if_unrecordable_) throw;
    if (!gave_up_.exchange(true)) if_unrecordable_(why);
  }
  return found;
}

std::vector<Tensor> FunctionGradient::operator()(InnerGraph& graph, const std::vector<Tensor>& gradients,
                                                 const std::vector<SavedValue>& saved,
                                                 const std::vector<bool>& needed) {
  Pass pass(graph, gradients, saved, needed);
  if (CallRecorder::current() || functions_run_eagerly() || gave_up_ || !pass.may_be_recorded()) return pass.run();
  Kind kind{{}, needed, modes_now()};
  for (const Tensor& gradient : gradients) {
    kind.gradients.emplace_back();
    if (!gradient.defined()) continue;
    kind.gradients.back() = geometry_of(gradient);
    kind.gradients.back()->offset = 0;
  }
  Trace& trace = find_or_add(std::move(kind));
  std::shared_ptr<const Recording> recording;
  auto replay = take_replay(trace, recording);
  if (!replay) return record(trace, pass);
  auto found = pass.replay(*replay, *recording);
  give_back(trace, std::move(replay));
  return found;
}

}  // namespace tutti
