#include "tutti/function/recorder.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/function/memory_watch.h"
#include "tutti/function/recordable_calls.h"
#include "tutti/function/recorder_readable.h"
#include "tutti/tensor/copy_on_write.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using Kind = Program::Buffer::Kind;

constexpr int kUntouched = 0xA5;  // what fresh memory is filled with, to see whether C++ wrote to it

bool makes_fresh_memory(const std::string& op) {
  return op.rfind("aten::empty", 0) == 0 || op.rfind("aten::new_empty", 0) == 0 || op == "aten::_efficientzerotensor";
}

bool contains(const c10::SmallVector<int, 2>& numbers, int number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

// What the value lies in, of a mesh tensor its first component; null: nothing here.
const c10::StorageImpl* first_memory(const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  const Components& components = mesh_impl(tensor).components();
  return components.empty() ? nullptr : first_memory(components[0]);
}

}  // namespace

// Unless it is there already.
void Recorder::add_number(c10::SmallVector<int, 2>& numbers, int number) {
  if (!contains(numbers, number)) numbers.push_back(number);
}

Recorder::Recorder(std::string name, const std::vector<Program::Leaf>& leaves, Unrecordable unrecordable)
    : name_(std::move(name)),
      unrecordable_(unrecordable),
      unseen_accesses_(unseen_accesses()),
      in_replica_(in_replica_view()),
      num_threads_(at::get_num_threads()) {
  program_.name = name_;
  for (const Program::Leaf& leaf : leaves) {
    program_.leaves.push_back(
        {.tensor = leaf.tensor, .is_known = true, .had_gradient = gradient_of(leaf.tensor).defined()});
    leaves_.emplace_back(leaf.tensor, gradient_of(leaf.tensor).defined());
    take_gradient(program_.leaves.size() - 1);
  }
}

// What the leaf has when the function is entered.
void Recorder::take_gradient(size_t index) {
  Program::Leaf& leaf = program_.leaves[index];
  const auto pieces = gradient_pieces(leaf.tensor);
  const auto can_be_recorded = [](const Tensor& piece) { return piece.defined() && has_recordable_memory(piece); };
  if (!std::ranges::all_of(pieces, can_be_recorded)) return;
  for (size_t i = 0; i < pieces.size(); ++i) {
    leaf.entry_geometries.push_back(geometry_of(pieces[i]));
    int number = known_buffer(pieces[i]);  // of another leaf's, where they lie in one buffer
    if (number < 0)
      number = add_buffer({.kind = Kind::gradient,
                           .bytes = static_cast<int64_t>(pieces[i].storage().nbytes()),
                           .index = static_cast<int>(index),
                           .piece = static_cast<int>(i)},
                          pieces[i].storage());
    leaf.entry_buffers.push_back(number);
  }
}

Recorder::~Recorder() { open_all(); }

bool Recorder::attempt(FunctionRef<void()> part) {
  try {
    part();
  } catch (const Error& why) {
    if (unrecordable_ == Unrecordable::error) throw;
    refuse(why);
  } catch (const c10::Error& why) {  // of a tensor of a kind of its own
    if (unrecordable_ == Unrecordable::error) throw;
    refuse(Error(ErrorCode::unimplemented, str(name_, ": ", why.what_without_backtrace())));
  }
  return !is_over();
}

void Recorder::refuse(const Error& why) {
  if (is_undone()) failed_part_ = why;
  if (throws()) throw why;
  if (is_over()) return;
  open_all();
  why_over_ = why;
  program_ = {};
  states_.clear();
  arguments_.clear();
  replica_leaves_.clear();
  leaves_.clear();
  outside_.clear();
  step_aside();
}

Tensors Recorder::take_arguments(at::ArrayRef<Tensor> arguments) {
  const auto first = static_cast<std::ptrdiff_t>(arguments_.size());
  for (const Tensor& argument : arguments) {
    const int index = static_cast<int>(arguments_.size());
    if (!argument.defined()) {
      arguments_.emplace_back();
      continue;
    }
    Geometry geometry = geometry_of(argument);
    geometry.offset = 0;
    const auto bytes = static_cast<size_t>(extent_bytes(geometry));
    void* const data = argument.numel() ? const_cast<void*>(argument.const_data_ptr()) : nullptr;
    c10::DataPtr memory(
        data, new Tensor(argument), [](void* held) { delete static_cast<Tensor*>(held); }, argument.device());
    const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(memory),
                               c10::GetAllocator(argument.device().type()), true);
    arguments_.push_back(tensor_on(storage, geometry));
    const int number =
        add_buffer({.kind = Kind::argument, .bytes = static_cast<int64_t>(bytes), .index = index}, storage);
    value_of(arguments_.back());
    close(number);
  }
  return Tensors(arguments_.begin() + first, arguments_.end());
}

std::optional<Tensors> Recorder::take_element(const TakenApart& element) {
  const auto refuse = [&](const char* where, const char* way_out) {
    throw Error(ErrorCode::unimplemented,
                str(name_, ": next takes an element ", where, ", which cannot be recorded; ", way_out));
  };
  Tensors copies;
  const bool goes_on = attempt([&] {
    if (in_part()) refuse("in a branch of cond, or in a loop", "take it before");
    if (in_replica_view() && !in_replica_) refuse("in run", "take it before, and pass it to run");
    check_memory(name_, "an element has a tensor", element.plain);
    for (const Tensor& tensor : element.plain)
      if (tensor.defined() && tensor.requires_grad()) refuse("that requires a gradient", "have the data give detach()");
    for (const LaidOut& value : element.values)
      if (value.requires_grad) refuse("that requires a gradient", "have the data give detach()");
    copies = take_arguments(element.plain);
  });
  if (!goes_on) return {};
  return put_together(std::move(copies), element.values);
}

int Recorder::add_buffer(Program::Buffer buffer, c10::Storage storage) {
  const int number = static_cast<int>(program_.buffers.size());
  buffer_of_.emplace(storage.unsafeGetStorageImpl(), number);
  buffer.device = storage.device();
  program_.buffers.push_back(std::move(buffer));
  states_.push_back({.storage = std::move(storage)});
  if (program_.buffers.back().kind == Kind::temporary && !parts_.empty()) states_.back().part = parts_.back()->number;
  return number;
}

// -1: none.
int Recorder::known_buffer(const Tensor& tensor) const {
  if (!tensor.has_storage()) return -1;
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (const auto found = buffer_of_.find(storage); found != buffer_of_.end()) return found->second;
  const auto share = shares_.find(storage);
  if (share == shares_.end()) return -1;
  const int number = share->second.buffer;
  const bool left = tensor.storage().data() != states_[static_cast<size_t>(number)].storage.data();
  if (left && !program_.leaves_shares)
    throw Error(ErrorCode::unimplemented,
                str(name_, ": what a replica has of a value of shape ", str_list(tensor.sizes()),
                    " was parted from it while the function ran, by a read in global view; read it before run"));
  return number;
}

int Recorder::buffer_of(const Tensor& tensor) {
  const int known = known_buffer(tensor);
  if (known < 0) return capture(tensor);
  refuse_tensor_of_part(known);
  return known;
}

void Recorder::gives_data(const Tensor& tensor) {
  const c10::StorageImpl* const memory = first_memory(tensor);
  if (!memory) return;
  if (const auto known = buffer_of_.find(memory); known != buffer_of_.end()) return note_alias(tensor, known->second);
  auto& source = sources_.try_emplace(memory, tensor.getIntrusivePtr()).first->second;
  if (source.expired() || is_leaf_with_gradient(tensor)) source = c10::weak_intrusive_ptr(tensor.getIntrusivePtr());
}

// The tensor from outside that this one is the data() of, or else itself.
Tensor Recorder::source_of_data(const Tensor& tensor) const {
  const auto found = sources_.find(first_memory(tensor));
  if (found == sources_.end()) return tensor;
  auto source = found->second.lock();
  if (!source || is_mesh_tensor(Tensor(source)) != is_mesh_tensor(tensor)) return tensor;
  return first_memory(Tensor(source)) == first_memory(tensor) ? Tensor(std::move(source)) : tensor;
}

// A storage that no recorded call made belongs to somebody outside.
int Recorder::capture(const Tensor& used) {
  const Tensor tensor = source_of_data(used);
  note_leaf(tensor);
  return add_buffer({.kind = Kind::captured,
                     .bytes = static_cast<int64_t>(tensor.storage().nbytes()),
                     .storage = tensor.storage(),
                     .origin = tensor,
                     .origin_geometry = geometry_of(tensor),
                     .origin_requires_grad = tensor.requires_grad()},
                    tensor.storage());
}

// What lies in the memory of a captured tensor may be another one from outside, that has a gradient of its own.
void Recorder::note_alias(const Tensor& tensor, int number) {
  if (number < 0 || buffer(number).kind != Kind::captured || buffer(number).origin.is_same(tensor)) return;
  const bool is_mesh = mesh_of_.contains(number);
  if (is_mesh == is_mesh_tensor(tensor) && outside_.use(tensor, number)) note_gradient_in_parts(tensor);
}

int Recorder::value_of(const Tensor& tensor) {
  if (!tensor.defined()) return -1;
  if (!has_recordable_memory(tensor))
    throw Error(ErrorCode::unimplemented,
                tutti::str(name_, ": a tensor of layout ", tensor.layout(), " on ", tensor.device(),
                           "; dense tensors on the CPU or a GPU can be recorded. Call run_functions_eagerly(true)"));
  const int number = buffer_of(tensor);
  Geometry geometry = geometry_of(tensor);
  for (const int value : state(number).values)
    if (program_.values[static_cast<size_t>(value)].geometry == geometry) return value;
  const int value = static_cast<int>(program_.values.size());
  program_.values.push_back({number, std::move(geometry)});
  state(number).values.push_back(value);
  return value;
}

// A number that C++ made a tensor of, so that an op takes it, is a number.
Program::Operand Recorder::operand_of(const at::IValue& argument) {
  using OperandKind = Program::Operand::Kind;
  if (argument.isTensor()) {
    const Tensor& tensor = argument.toTensor();
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return {.constant = argument};
    return {.kind = OperandKind::tensor, .values = {value_of(tensor)}};
  }
  if (!argument.isTensorList() && !argument.isOptionalTensorList()) return {.constant = argument};
  Program::Operand list{.kind = argument.isTensorList() ? OperandKind::tensors : OperandKind::optional_tensors};
  for (const at::IValue& item : argument.toListRef())
    list.values.push_back(item.isTensor() ? value_of(item.toTensor()) : -1);
  return list;
}

// Host memory that LibTorch handed out without a value: what C++ has written there by itself is kept.
void Recorder::keep_what_cpp_wrote(int number) {
  if (!state(number).fresh) return;
  state(number).fresh = false;
  const auto bytes = static_cast<size_t>(buffer(number).bytes);
  const auto* data = static_cast<const unsigned char*>(state(number).storage.data());
  if (std::all_of(data, data + bytes, [](unsigned char byte) { return byte == kUntouched; })) return;
  c10::Storage copy(c10::Storage::use_byte_size_t(), bytes, c10::GetAllocator(c10::kCPU)->allocate(bytes), nullptr,
                    false);
  std::memcpy(copy.mutable_data(), data, bytes);
  const int constant = add_buffer({.kind = Kind::constant, .bytes = buffer(number).bytes, .storage = copy}, copy);
  const Geometry all{at::kByte, {static_cast<int64_t>(bytes)}, {1}, 0, false, false};
  const int from = value_of(tensor_on(copy, all)), to = value_of(tensor_on(state(number).storage, all));
  static const auto copy_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  using OperandKind = Program::Operand::Kind;
  Program::Call call{.op = copy_op, .name = "aten::copy_"};
  call.arguments = {{.kind = OperandKind::tensor, .values = {to}},
                    {.kind = OperandKind::tensor, .values = {from}},
                    {.constant = false}};
  call.results = {{.kind = OperandKind::tensor, .values = {to}}};
  call.reads = {constant};
  call.writes = {number};
  buffer(number).written = true;
  calls().push_back(std::move(call));
}

void Recorder::note_write(const Tensor& tensor) {
  if (!tensor.defined()) return;
  Program::Buffer& written = buffer(buffer_of(tensor));
  written.written = true;
  program_.leaves_shares |= shares_.count(tensor.storage().unsafeGetStorageImpl()) > 0;
  if ((written.kind == Kind::captured || written.kind == Kind::replica) && !tensor.is_inference()) {
    written_versions().push_back(tensor.unsafeGetTensorImpl()->version_counter());
    note_write_in_graph(tensor);
  }
  note_write_in_parts(tensor);
}

void Recorder::note_write_in_graph(const Tensor& tensor) {
  if (!at::GradMode::is_enabled() || !parts_.empty()) return;
  written_in_graph_.push_back(tensor.is_view() ? Tensor(tensor._base()) : tensor);
}

// In place: t_, squeeze_, resize_. A replay does it to no tensor, as it works with the tensors' final shapes.
void Recorder::refuse_new_geometry(const OperatorInfo& info, const Tensor& tensor) {
  const int number = buffer_of(tensor);
  const Program::Buffer& changed = buffer(number);
  if (info.name == "aten::detach_") return;
  if (changed.kind == Kind::argument || changed.origin.is_same(tensor) || is_made_outside(number))
    throw Error(
        ErrorCode::failed_precondition,
        str(name_, ": ", info.name, " changes the shape of a tensor from outside, ", to_string(geometry_of(tensor)),
            ", which a replay would not; work on a view of it: t(), unsqueeze(), …"));
}

void Recorder::take_operands(const OperatorInfo& info, at::ArrayRef<at::IValue> arguments, Program::Call& call) {
  const bool touches = !info.is_view && !info.changes_geometry;
  const auto& schema = call.op->schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    call.arguments.push_back(operand_of(arguments[i]));
    for_each_tensor(arguments[i], [&](const Tensor& tensor) {
      if (tensor.defined()) note_alias(tensor, known_buffer(tensor));
    });
    const bool reads = !schema[i].is_out();
    for (const int value : call.arguments.back().values) {
      if (value < 0) continue;
      const int number = program_.values[static_cast<size_t>(value)].buffer;
      if (reads) add_number(call.reads, number);
      if (info.writes[i] && touches) add_number(call.writes, number);
      if (touches) keep_what_cpp_wrote(number);
    }
    if (info.writes[i])
      for_each_tensor(arguments[i], [&](const Tensor& tensor) {
        info.changes_geometry ? refuse_new_geometry(info, tensor) : note_write(tensor);
      });
  }
}

void Recorder::take_results(const OperatorInfo& info, Stack& stack, Program::Call& call) {
  const size_t known = program_.buffers.size();
  const int number_of_call = static_cast<int>(calls().size());
  for (const at::IValue& result : torch::jit::last(stack, info.num_returns)) {
    for_each_tensor(result, [&](const Tensor& tensor) {
      if (tensor.defined()) outside_.made(tensor);
      if (!tensor.defined() || !has_recordable_memory(tensor) || known_buffer(tensor) >= 0) return;
      const int64_t bytes = tensor._is_zerotensor() ? 0 : static_cast<int64_t>(tensor.storage().nbytes());
      const int number =
          add_buffer({.kind = Kind::temporary, .bytes = bytes, .maker = number_of_call}, tensor.storage());
      call.writes.push_back(number);
      state(number).made_by = call.name;
      if (!makes_fresh_memory(info.name)) return;
      call.gives_fresh_memory = true;
      if (!tensor.is_cpu()) return;
      state(number).fresh = true;
      if (bytes) std::memset(state(number).storage.mutable_data(), kUntouched, static_cast<size_t>(bytes));
    });
    call.results.push_back(operand_of(result));
  }
  const bool gives_tensors = std::any_of(call.results.begin(), call.results.end(),
                                         [](const Program::Operand& result) { return !result.values.empty(); });
  call.is_view = gives_tensors && program_.buffers.size() == known && (!info.writes_any || info.changes_geometry);
}

// An argument that receives the result may have got another size, and more memory.
void Recorder::take_new_size(const OperatorInfo& info, const Tensor& tensor, int value_before) {
  const int number = buffer_of(tensor);
  Program::Buffer& target = buffer(number);
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  const bool outside = (target.kind != Kind::temporary || is_made_outside(number)) && !info.changes_geometry;
  const bool moved = target.kind == Kind::argument && bytes != target.bytes;
  if (moved || (outside && program_.values[static_cast<size_t>(value_before)].geometry != geometry_of(tensor)))
    throw Error(ErrorCode::failed_precondition,
                str(name_, ": ", info.name, " resizes a tensor from outside to ", str_list(tensor.sizes()),
                    ", which a replay would not; give it this size before"));
  target.bytes = bytes;
}

// What a replica reads of a value stays that value.
void Recorder::keep_shares(at::ArrayRef<at::IValue> arguments, const Program::Call& call, KeptShares& kept) const {
  if (shares_.empty()) return;
  for (const at::IValue& argument : arguments)
    for_each_tensor(argument, [&](const Tensor& tensor) {
      if (!tensor.defined() || !tensor.has_storage()) return;
      c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
      const auto share = shares_.find(storage);
      if (share != shares_.end() && !contains(call.writes, share->second.buffer)) kept.add(*storage);
    });
}

// Done anew in each replay. Replicas have generators of their own, and programs for other devices draw there.
void Recorder::note_seed() {
  if (in_replica_view() || program_.compiler) return;
  const std::optional<Seed> seed = seeds_.look();
  if (!seed) return;
  if (in_part())
    throw Error(ErrorCode::failed_precondition,
                str(name_, ": manual_seed in ", parts_.back()->what, " cannot be recorded; seed before it"));
  host_step(str("manual_seed(", seed->value, ")").c_str(), {}, {}, [seed](at::ArrayRef<Tensor>) { set_seed(*seed); });
}

void Recorder::call(const c10::OperatorHandle& op, const OperatorInfo& info, Stack& stack) {
  const std::vector<at::IValue> arguments = torch::jit::last(stack, info.num_arguments).vec();
  Program::Call call{.op = op, .name = name_of(op), .place = program_.compiler ? call_place() : CallPlace()};
  call.one_thread = num_threads_ > 1 && at::get_num_threads() == 1;
  call.grad_mode = at::GradMode::is_enabled();
  call.draws = info.draws && !is_without_dropout(op, arguments);
  const bool goes_on = attempt([&] {
    note_seed();
    check_recordable(name_, op, info, arguments);
    if (call.draws && !program_.compiler) check_generator(name_, info, arguments);
    take_operands(info, arguments, call);
    if (call.draws) note_draw_in_parts(arguments);
  });
  if (!goes_on) return run_below(op, stack);
  {
    const Readable open(*this, call);
    KeptShares kept;
    keep_shares(arguments, call, kept);
    run_below(op, stack);
    attempt([&] {
      take_new_sizes(info, arguments, call);
      take_results(info, stack, call);
    });
  }
  add_call(std::move(call));
}

void Recorder::take_new_sizes(const OperatorInfo& info, at::ArrayRef<at::IValue> arguments, Program::Call& call) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!info.writes[i] || !(info.writes_out || info.changes_geometry)) continue;
    size_t item = 0;
    for_each_tensor(arguments[i], [&](const Tensor& tensor) {
      if (tensor.defined()) take_new_size(info, tensor, call.arguments[i].values[item]);
      ++item;
    });
    if (info.writes_out) call.arguments[i] = operand_of(arguments[i]);
  }
}

void Recorder::add_call(Program::Call call) {
  if (is_over()) return;
  call.gpu = current_gpu();
  if (!in_replica_) call.replica = ThreadView::current().replica;
  calls().push_back(std::move(call));
  if (calls().size() % 32 == 0) free_unused();
}

void Recorder::close(int number) {
  const Kind kind = buffer(number).kind;
  if (kind != Kind::temporary && kind != Kind::argument) return;
  if (state(number).fresh) return;
  c10::StorageImpl& storage = *state(number).storage.unsafeGetStorageImpl();
  unrecordable_ == Unrecordable::error ? forbid_access(storage) : watch_access(storage);
}

void Recorder::open_all() {
  for (const State& state : states_) open_to_access(*state.storage.unsafeGetStorageImpl());
}

// What nobody else can reach any more keeps its place in the program and gives its memory back.
void Recorder::free_unused(size_t from) {
  for (size_t i = from; i < states_.size(); ++i)
    if (program_.buffers[i].kind == Kind::temporary && states_[i].storage.use_count() == 1)
      states_[i].storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().clear();
}

void Recorder::host_step(const char* name, at::ArrayRef<Tensor> inputs, at::ArrayRef<Tensor> written, HostStep step) {
  Program::Call call{.host_step = step, .name = name};
  call.one_thread = num_threads_ > 1 && at::get_num_threads() == 1;
  const bool goes_on = attempt([&] {
    note_seed();
    call.arguments.push_back(operand_of(at::IValue(inputs)));
    for (const int value : call.arguments[0].values)
      if (value >= 0) add_number(call.reads, program_.values[static_cast<size_t>(value)].buffer);
    for (const Tensor& tensor : written) add_number(call.writes, buffer_of(tensor));
    for (const auto* buffers : {&call.reads, &call.writes})
      for (const int number : *buffers) keep_what_cpp_wrote(number);
  });
  if (!goes_on) return run_below(step, inputs);
  if (is_undone()) {
    clear_unwritten(call);
  } else {
    const Readable open(*this, call);
    run_below(step, inputs);
  }
  for (const Tensor& tensor : written) buffer(buffer_of(tensor)).written = true;
  add_call(std::move(call));
}

// The number of a mesh tensor from outside.
size_t Recorder::mesh_value(const Tensor& tensor) {
  for (size_t i = 0; i < program_.meshes.size(); ++i)
    if (program_.meshes[i].tensor.is_same(tensor)) return i;
  if (!in_replica_) note_leaf(tensor);
  program_.meshes.push_back(
      {.tensor = tensor, .components = mesh_impl(tensor).components(), .requires_grad = tensor.requires_grad()});
  return program_.meshes.size() - 1;
}

bool Recorder::is_from_outside(const Tensor& tensor) const {
  return std::any_of(program_.meshes.begin(), program_.meshes.end(),
                     [&](const Program::MeshValue& mesh) { return mesh.tensor.is_same(tensor); });
}

void Recorder::global_view(MeshTensorImpl& tensor, bool writes) {
  attempt([&] {
    const Tensor itself(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(&tensor));
    bool from_outside = false;
    for (const Tensor& component : tensor.components()) {
      const int known = known_buffer(component);
      if (known >= 0 && buffer(known).kind != Kind::captured) continue;  // the function's own
      from_outside = true;
      const int number = known >= 0 ? known : capture(component);
      const auto [mesh, is_new] = mesh_of_.try_emplace(number, 0);
      if (is_new) mesh->second = mesh_value(source_of_data(itself));
      Program::MeshValue& first = program_.meshes[mesh->second];
      first.read = true;
      first.written |= writes;
      if (!first.tensor.is_same(itself) && outside_.use(itself, number)) note_gradient_in_parts(itself);
    }
    if (!writes || !from_outside || tensor.is_inference()) return;
    note_write_in_graph(itself);
    written_versions().push_back(tensor.version_counter());
    for (Part* const part : parts_) {
      if (part->undo) part->undo->before_write(tensor.version_counter());
      if (at::GradMode::is_enabled()) part->written_in_graph.push_back(itself);
    }
  });
}

// What is undone is counted where a replay does it.
void Recorder::communicates(CommunicationCounter& counter, int64_t bytes) {
  if (!is_undone()) counter.record(bytes);
  (parts_.empty() ? program_.sent : parts_.back()->sent).push_back({&counter, bytes});
}

Tensor Recorder::replica_view(const Tensor& tensor, const Tensor& global, FunctionRef<Tensor()> look) {
  attempt([&] {
    if (const int known = known_buffer(global); known >= 0 && buffer(known).kind != Kind::captured && !in_replica_)
      throw Error(
          ErrorCode::unimplemented,
          str(name_, ": a replica uses a mesh tensor of shape ", str_list(tensor.sizes()),
              " that the function made or got as an argument, which cannot be recorded; pass gather(x) to run"));
  });
  Tensor own = look();
  if (!is_over()) attempt([&] { take_replica_view(tensor, global, own); });
  return own;
}

void Recorder::take_replica_view(const Tensor& tensor, const Tensor& global, const Tensor& own) {
  if (!has_recordable_memory(own)) return;
  const bool is_known = known_buffer(own) >= 0;  // it, or another one in the same memory
  if (is_known && (in_replica_ || is_from_outside(tensor))) return;
  note_leaf(own);
  const size_t mesh = mesh_value(tensor);
  if (in_replica_) {
    add_buffer({.kind = Kind::replica,
                .bytes = static_cast<int64_t>(own.storage().nbytes()),
                .index = static_cast<int>(mesh),
                .origin = own,
                .origin_geometry = geometry_of(own),
                .origin_requires_grad = own.requires_grad()},
               own.storage());
    return;
  }
  program_.runs_replicas = true;
  if (own.requires_grad()) replica_leaves_.emplace_back(tensor, own);
  if (own.storage().data() != global.storage().data()) {
    if (!is_known) capture(own);
    return;
  }
  program_.meshes[mesh].shared = true;
  const int number = buffer_of(global);
  mesh_of_.try_emplace(number, mesh);
  shares_.emplace(own.storage().unsafeGetStorageImpl(), Share{number, own.storage().getWeakStorageImpl()});
}

bool Recorder::has_written(const Tensor& tensor) const {
  const int known = known_buffer(tensor);
  return known >= 0 && program_.buffers[static_cast<size_t>(known)].written;
}

}  // namespace tutti
