// How a recording ends: what the function leaves becomes the program's results.

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/memory_watch.h"
#include "tutti/function/recordable_calls.h"
#include "tutti/function/recorder.h"
#include "tutti/function/sub_program.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

using Kind = Program::Buffer::Kind;

namespace {

// Copies from pinned memory may still read arguments, which their allocator does not know under the recorder's name.
void wait_for_gpus(const Program& program) {
  c10::SmallVector<c10::Device, 8> gpus;
  for (const Program::Buffer& used : program.buffers)
    if (!used.device.is_cpu() && std::find(gpus.begin(), gpus.end(), used.device) == gpus.end())
      gpus.push_back(used.device);
  for (const c10::Device gpu : gpus) {
    const c10::impl::VirtualGuardImpl devices(gpu.type());
    devices.synchronizeStream(devices.getStream(gpu));
  }
}

}  // namespace

// What the function leaves as gradients of the leaves that it captured.
void Recorder::take_leaves() {
  std::unordered_map<const c10::TensorImpl*, size_t> known;
  for (size_t i = 0; i < program_.leaves.size(); ++i) known.emplace(program_.leaves[i].tensor.unsafeGetTensorImpl(), i);
  std::unordered_set<const c10::TensorImpl*> met_with_gradient;
  for (const auto& [leaf, had_gradient] : leaves_)
    if (had_gradient) met_with_gradient.insert(leaf.unsafeGetTensorImpl());
  const auto add_leaf = [&](const Tensor& tensor) {
    if (is_leaf_with_gradient(tensor) && known.emplace(tensor.unsafeGetTensorImpl(), program_.leaves.size()).second)
      program_.leaves.push_back(
          {.tensor = tensor, .had_gradient = met_with_gradient.contains(tensor.unsafeGetTensorImpl())});
  };
  for (const Program::Buffer& captured : program_.buffers)
    if (captured.kind == Kind::captured || captured.kind == Kind::replica) add_leaf(captured.origin);
  outside_.for_each([&](const Tensor& alias, const OutsideTensors::Used& used) {
    if (used.had_gradient) met_with_gradient.insert(alias.unsafeGetTensorImpl());
    add_leaf(alias);
  });
  if (!in_replica_)
    for (const Program::MeshValue& mesh : program_.meshes) add_leaf(mesh.tensor);
  for (size_t i = 0; i < program_.leaves.size(); ++i) {
    Program::Leaf& leaf = program_.leaves[i];
    leaf.needs_none = !leaf.had_gradient;
    leaf.hooks = hooks_of(leaf.tensor);
    if (gradient_of(leaf.tensor).defined())
      take_new_gradient(leaf);
    else
      leaf.changes = leaf.had_gradient;
  }
}

// What the leaf has when the function ends, if a call made it.
void Recorder::take_new_gradient(Program::Leaf& leaf) {
  const auto pieces = gradient_pieces(leaf.tensor);
  std::vector<int> buffers;
  std::vector<Geometry> geometries;
  for (const Tensor& piece : pieces) {
    if (!piece.defined()) continue;
    const int number = has_recordable_memory(piece) ? known_buffer(piece) : -1;
    if (number < 0) return;
    buffers.push_back(number);
    geometries.push_back(geometry_of(piece));
  }
  if (buffers == leaf.entry_buffers && geometries == leaf.entry_geometries) return;
  leaf.changes = true;
  for (const Tensor& piece : pieces) leaf.exit_values.push_back(value_of(piece));
  for (const int number : buffers) given_out_[static_cast<size_t>(number)] = true;
  const Tensor& gradient = gradient_of(leaf.tensor);
  if (!is_mesh_tensor(gradient)) return;
  leaf.exit_spec = mesh_impl(gradient).spec();
  leaf.exit_strides = gradient.strides();
}

// A tensor from outside that only the recording holds any more is a value that C++ made for a call.
void Recorder::find_constants() {
  for (Program::Buffer& captured : program_.buffers)
    if (captured.kind == Kind::captured && !captured.written && captured.origin.use_count() == 1 &&
        captured.storage.use_count() == 3) {  // of the buffer, its state and its origin
      captured.kind = Kind::constant;
      captured.origin.reset();
    }
}

void Recorder::take_aliases() {
  outside_.for_each([&](const Tensor& alias, const OutsideTensors::Used& used) {
    const Program::Buffer& captured = buffer(used.buffer);
    if (is_mesh_tensor(alias)) {
      if (is_from_outside(alias)) return;
      const Program::MeshValue& first = program_.meshes[mesh_of_.at(used.buffer)];
      program_.meshes.push_back(
          {alias, mesh_impl(alias).components(), used.requires_grad, first.read, first.written, first.shared});
    } else if (captured.kind == Kind::captured) {
      program_.aliases.push_back({alias, captured.storage, used.geometry, used.requires_grad});
    }
  });
  outside_.clear();
}

void Recorder::find_kept_outside() {
  for (size_t i = 0; i < states_.size(); ++i) {
    const Program::Buffer& made = program_.buffers[i];
    const bool ours = made.kind == Kind::temporary || made.kind == Kind::argument;
    if (!ours || given_out_[i] || states_[i].storage.use_count() == 1) continue;
    const std::string shape =
        states_[i].values.empty() ? "" : to_string(program_.values[static_cast<size_t>(states_[i].values[0])].geometry);
    kept_outside_.push_back(made.kind == Kind::argument ? str("argument ", made.index, ", ", shape)
                                                        : str(shape, " of ", states_[i].made_by));
  }
}

// A gradient that was there at the start and that no call uses makes no difference.
void Recorder::forget_unused_gradients() {
  for (Program::Leaf& leaf : program_.leaves) {
    const auto uses = [&](const auto& buffers) {
      return std::ranges::find_first_of(leaf.entry_buffers, buffers) != leaf.entry_buffers.end();
    };
    const bool used = std::any_of(program_.calls.begin(), program_.calls.end(),
                                  [&](const Program::Call& call) { return uses(call.reads) || uses(call.writes); });
    if (used) continue;
    leaf.entry_buffers.clear();
    leaf.entry_geometries.clear();
  }
}

// What LibTorch resizes in a composite op, no call shows.
void Recorder::refuse_resized_arguments() {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (!arguments_[i].defined()) continue;
    const int number = buffer_of_.at(arguments_[i].storage().unsafeGetStorageImpl());
    const auto& values = state(number).values;
    if (program_.values[static_cast<size_t>(values[0])].geometry != geometry_of(arguments_[i]))
      throw Error(ErrorCode::failed_precondition,
                  str(name_, ": argument ", i, " was resized to ", str_list(arguments_[i].sizes()),
                      ", which a replay would not; give it this size before"));
  }
}

// Who asks for the variable's gradient after the call would have them reduced then. What an only replica found is all
// of the gradient, and its own.
void Recorder::reduce_gradients_of_replicas() {
  for (const ReplicaLeaf& met : replica_leaves_)
    if (met.has_new_gradient() && (!met.had_gradient() || mesh_impl(met.variable()).mesh_meta()->has_only_replica()))
      met.variable().grad();
}

// A replay, in which no replica runs, leaves them so, too: what is reduced next is the same in all processes.
void Recorder::note_unreduced() {
  for (const Program::MeshValue& mesh : program_.meshes) {
    const MeshMeta* const meta = program_.runs_replicas ? mesh_impl(mesh.tensor).mesh_meta() : nullptr;
    if (meta && meta->group()->has_run() &&
        std::ranges::find(program_.unreduced, meta->group()) == program_.unreduced.end())
      program_.unreduced.push_back(meta->group());
  }
}

// LibTorch has added to tensors that no call shows.
void Recorder::refuse_gradients_of_replicas() const {
  for (const ReplicaLeaf& met : replica_leaves_)
    if (met.has_new_gradient())
      throw Error(
          ErrorCode::unimplemented,
          str(name_, ": a replica adds to the gradient that it found in grad() of a variable of shape ",
              str_list(met.variable().sizes()),
              ", which cannot be recorded. Call zero_grad() before, or compute with gradients(loss, variables)"));
}

// Where the function begins the next time, LibTorch's graph would go on from this one.
void Recorder::refuse_kept_graphs() const {
  for (const Tensor& written : written_in_graph_)
    if (written.requires_grad())
      throw Error(ErrorCode::unimplemented,
                  str(name_, ": the function writes in place, while gradients are recorded, to a tensor of shape ",
                      str_list(written.sizes()),
                      " from outside, which keeps the graph of that, so that a later call's gradients would go through "
                      "this one's; detach_() it at the end, write under NoGradGuard, or let the function take it as an "
                      "argument and return the new value"));
}

void Recorder::take_result(const Tensor& result) {
  const int value = value_of(result);
  program_.results.push_back({.value = value});
  if (value < 0) return;
  const int number = program_.values[static_cast<size_t>(value)].buffer;
  keep_what_cpp_wrote(number);
  program_.results.back().requires_grad = result.requires_grad();
  program_.results.back().is_origin = is_origin(result);
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].is_same(result)) program_.results.back().argument = static_cast<int>(i);
}

// How a result shows memory that somebody else has, or another result.
void Recorder::relate_results(at::ArrayRef<Tensor> results) {
  const auto first_on_memory = [&](size_t i) {
    const auto number_of = [&](size_t k) { return program_.results[k].value < 0 ? -1 : known_buffer(results[k]); };
    for (size_t k = 0; k < i; ++k)
      if (number_of(k) == number_of(i)) return results[k];
    return Tensor();
  };
  for (size_t i = 0; i < results.size(); ++i) {
    Program::Result& result = program_.results[i];
    if (result.value < 0) continue;
    for (size_t k = 0; k < i && result.same_as < 0; ++k)
      if (results[k].is_same(results[i])) result.same_as = static_cast<int>(k);
    const auto* meta = torch::autograd::impl::get_view_autograd_meta(results[i]);
    if (!meta || !meta->has_bw_view() || meta->get_creation_meta() != torch::autograd::CreationMeta::DEFAULT) continue;
    const Tensor& base = meta->get_backward_view().base_;
    const Tensor& origin = buffer(known_buffer(results[i])).origin;
    result.is_view = base.is_same(first_on_memory(i)) || base.is_same(origin) ||
                     (origin.defined() && origin.is_view() && base.is_same(Tensor(origin._base()))) ||
                     std::any_of(arguments_.begin(), arguments_.end(),
                                 [&](const Tensor& argument) { return argument.is_same(base); });
  }
}

bool Recorder::has_made(const Tensor& tensor) const {
  const int known = known_buffer(tensor);
  if (known < 0) return false;
  const Kind kind = program_.buffers[static_cast<size_t>(known)].kind;
  return kind == Kind::temporary || kind == Kind::argument;
}

bool Recorder::is_origin(const Tensor& tensor) {
  return value_of(tensor) >= 0 && buffer(known_buffer(tensor)).origin.is_same(tensor);
}

void Recorder::refuse_compiled_gpus() const {
  for (const Program::Buffer& used : program_.buffers)
    if (program_.compiler && !used.device.is_cpu())
      throw Error(ErrorCode::unimplemented,
                  tutti::str(name_, ": a tensor on ", used.device,
                             " in a function that is compiled for other accelerators; give it what lies on the CPU"));
}

bool Recorder::take_end(at::ArrayRef<Tensor> results, std::vector<Tensor> saved) {
  return attempt([&] {
    if (failed_part_) throw *failed_part_;
    note_seed();
    if (unseen_accesses() != unseen_accesses_)
      throw Error(ErrorCode::failed_precondition,
                  name_ + ": C++ asked for the memory of a tensor in another thread while it was recorded");
    refuse_resized_arguments();
    refuse_gradients_of_replicas();
    refuse_kept_graphs();
    refuse_compiled_gpus();
    wait_for_gpus(program_);
    for (const Tensor& result : results) take_result(result);
    relate_results(results);
    for (const Tensor& value : saved) take_result(value);
    program_.num_saved = saved.size();
    arguments_.clear();
    written_in_graph_.clear();
    given_out_.assign(program_.buffers.size(), false);
    take_leaves();
    note_unreduced();
  });
}

Program Recorder::finish(Tensors& results) {
  given_out_.resize(program_.buffers.size(), false);
  for (size_t i = 0; i < results.size(); ++i) {
    if (program_.results[i].value < 0) continue;
    const Program::Value& value = program_.values[static_cast<size_t>(program_.results[i].value)];
    given_out_[static_cast<size_t>(value.buffer)] = true;
    // The new tensor drops the graph with what that holds.
    if (!program_.results[i].is_origin) results[i] = tensor_on(state(value.buffer).storage, value.geometry);
  }
  open_all();
  forget_unused_gradients();
  find_kept_outside();
  leaves_.clear();
  find_constants();
  take_aliases();
  for (size_t i = results.size(); i < program_.results.size(); ++i) {
    results.emplace_back();
    if (program_.results[i].value < 0) continue;
    const Program::Value& value = program_.values[static_cast<size_t>(program_.results[i].value)];
    results.back() = tensor_on(state(value.buffer).storage, value.geometry);
  }
  if (num_parts_) leave_out(program_, [&](int number) { return state(number).part != 0; });
  return std::move(program_);
}

}  // namespace tutti
