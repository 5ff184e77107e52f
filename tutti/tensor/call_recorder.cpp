#include "tutti/tensor/call_recorder.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/max_pool1d.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/outer_recorder.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

constexpr c10::DispatchKey kRecordAutogradKey = c10::DispatchKey::AutogradPrivateUse2;

constexpr c10::DispatchKeySet kAboveTheRecorder =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

// No recorder is on the thread while one works.
class RecorderAside {
 public:
  RecorderAside() : recorder_(CallRecorder::exchange_current(nullptr)) {}
  ~RecorderAside() { CallRecorder::exchange_current(recorder_); }
  RecorderAside(const RecorderAside&) = delete;
  RecorderAside& operator=(const RecorderAside&) = delete;
  CallRecorder* operator->() const { return recorder_; }
  CallRecorder* get() const { return recorder_; }
  bool records() const { return recorder_ && !recorder_->is_over(); }

 private:
  CallRecorder* recorder_;
};

void record(const c10::OperatorHandle& op, const OperatorInfo& info, Stack& stack) {
  const RecorderAside recorder;
  if (recorder.records()) return recorder->call(op, info, stack);
  if (recorder.get()) CallRecorder::step_aside();  // another replica's thread has ended the recording
  // Or it is a thread of LibTorch's that has the keys of one that records.
  const NotRecorded keys(recorder.get() ? kAboveTheRecorder : c10::DispatchKeySet());
  op.callBoxed(stack);
}

// Whether a plain tensor's call of this op is calls of others.
bool decomposes(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

// Whether LibTorch's kernel calls an op that is calls of others, with their gradients, and copies its result.
bool copies_of_composite(const c10::OperatorHandle& op) {
  const auto& [name, overload] = op.operator_name();
  if (!overload.ends_with("out") || op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return false;
  const std::string form = overload == "out" ? "" : overload.substr(0, overload.size() - 4);
  const auto composite = c10::Dispatcher::singleton().findSchema({name, form});
  return composite && decomposes(*composite);
}

class RecordKernel final : public c10::OperatorKernel {
 public:
  explicit RecordKernel(const c10::OperatorHandle& op)
      : info_(op), is_calls_(info_.is_composite || copies_of_composite(op)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (is_calls_) return op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    record(op, info_, *stack);
  }

 private:
  OperatorInfo info_;
  bool is_calls_;
};

// For operators of other libraries, and those registered after us.
void record_late(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  record(op, OperatorInfo(op), *stack);
}

void call_below(const c10::OperatorHandle& op, Stack& stack) {
  const NotRecorded keys(kAboveTheRecorder);
  op.callBoxed(stack);
}

void refuse_format(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  if (auto* recorder = CallRecorder::current())
    recorder->refuse(Error(
        ErrorCode::unimplemented,
        str("function: ", op.schema().name(),
            " works on a tensor that is sparse, quantized or nested, which cannot be recorded; take it out of the "
            "function, or call run_functions_eagerly(true)")));
  call_below(op, *stack);
}

// LibTorch's composites that read memory themselves, which no call would show.
constexpr std::array kReadNumbers = {"tensor_split.tensor_indices_or_sections",
                                     "ctc_loss.Tensor",
                                     "lstm.data",
                                     "gru.data",
                                     "rnn_tanh.data",
                                     "rnn_relu.data",
                                     "_pad_packed_sequence"};

void refuse_reader(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  if (auto* recorder = CallRecorder::current())
    recorder->refuse(Error(ErrorCode::failed_precondition,
                           str("function: ", op.schema().name(),
                               " reads lengths or places out of a tensor, and a replay would go on with the old ones. "
                               "Pass them as numbers, or take this part out of the function")));
  const NotRecorded keys;
  op.callBoxed(*stack);
}

// This one can be made of calls that show what is read.
Tensor recorded_one_hot(const Tensor& self, int64_t num_classes) {
  if (num_classes <= 0) {
    if (auto* recorder = CallRecorder::current())
      recorder->refuse(
          Error(ErrorCode::failed_precondition,
                "function: one_hot without a number of classes depends on the values of its tensor; name the number"));
    const NotRecorded keys;
    return at::one_hot(self, num_classes);
  }
  at::DimVector sizes(self.sizes());
  sizes.push_back(num_classes);
  return at::zeros(sizes, self.options()).scatter_(-1, self.unsqueeze(-1), 1);
}

void register_recording() {
  ensure_registered();
  auto& aten = immortal_library("aten", kRecordKey);
  immortal_library("_", kRecordKey).fallback(torch::CppFunction::makeFromBoxedFunction<&record_late>());
  immortal_library("_", kRecordAutogradKey).fallback(torch::CppFunction::makeFallthrough());
  using Key = c10::DispatchKey;
  constexpr std::array<std::pair<Key, Key>, 4> kFormats = {{{Key::SparsePrivateUse2, Key::SparseCPU},
                                                            {Key::SparseCsrPrivateUse2, Key::SparseCsrCPU},
                                                            {Key::QuantizedPrivateUse2, Key::QuantizedCPU},
                                                            {Key::NestedTensorPrivateUse2, Key::NestedTensorCPU}}};
  std::vector<torch::Library*> formats;
  for (const auto& [key, on_cpu] : kFormats) {
    immortal_library("_", key).fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_format>());
    formats.push_back(&immortal_library("aten", key));
  }
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 || asks_of_types(name.name)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || decomposes(*op)) continue;
    aten.impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<RecordKernel>(*op)));
    for (size_t i = 0; i < formats.size(); ++i)  // else an op's kernel for all devices would take the place of its own
      if (op->hasKernelForDispatchKey(kFormats[i].second))
        formats[i]->impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&refuse_format>());
  }
  auto& autograd = immortal_library("aten", kRecordAutogradKey);
  autograd.impl("max_pool1d", max_pool1d);
  autograd.impl("one_hot", recorded_one_hot);
  aten.impl("max_pool1d", max_pool1d);
  aten.impl("one_hot", recorded_one_hot);
  for (const char* reader : kReadNumbers)
    for (torch::Library* library : {&autograd, &aten})
      library->impl(reader, torch::CppFunction::makeFromBoxedFunction<&refuse_reader>());
}

// What the schemas of calls in front say, read once for each op.
const OperatorInfo& info_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<c10::OperatorName, OperatorInfo> known;
  return known.try_emplace(op.operator_name(), op).first->second;
}

c10::impl::LocalDispatchKeySet keys_when_ready() {
  static std::once_flag once;
  std::call_once(once, register_recording);
  settle_view();
  return c10::impl::tls_local_dispatch_key_set();
}

bool any_tensor(at::ArrayRef<at::IValue> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const at::IValue& argument) {
    return (argument.isTensor() && argument.toTensor().defined()) || argument.isTensorList() ||
           argument.isOptionalTensorList();
  });
}

// Where the parts of a mesh tensor are among plain tensors.
struct InputPart {
  const Spec* spec;  // null: a plain tensor
  size_t count;
};

std::vector<Tensor> put_together(at::ArrayRef<Tensor> plain, const std::vector<InputPart>& parts) {
  std::vector<Tensor> inputs;
  size_t next = 0;
  for (const InputPart& part : parts) {
    const auto begin = plain.begin() + static_cast<std::ptrdiff_t>(next);
    inputs.push_back(
        part.spec ? make_mesh_tensor(part.spec, Components(begin, begin + static_cast<std::ptrdiff_t>(part.count)))
                  : *begin);
    next += part.count;
  }
  return inputs;
}

// Records a step of which some tensors are mesh tensors as one of their components.
void record_step(CallRecorder& recorder, const char* name, at::ArrayRef<Tensor> inputs, at::ArrayRef<Tensor> written,
                 HostStep step) {
  std::vector<Tensor> plain, plain_written;
  std::vector<InputPart> parts;
  bool any = false;
  const auto components_of = [&](const Tensor& tensor) {
    any = true;
    recorder.global_view(mesh_impl(tensor), /*writes=*/false);
    return at::ArrayRef<Tensor>(mesh_impl(tensor).components());
  };
  for (const Tensor& input : inputs) {
    const bool is_mesh = is_mesh_tensor(input);
    if (is_mesh) mesh_impl(input).read();
    const auto tensors = is_mesh ? components_of(input) : at::ArrayRef<Tensor>(input);
    plain.insert(plain.end(), tensors.begin(), tensors.end());
    parts.push_back({is_mesh ? mesh_impl(input).spec() : nullptr, tensors.size()});
  }
  for (const Tensor& tensor : written) {
    const auto tensors = is_mesh_tensor(tensor) ? components_of(tensor) : at::ArrayRef<Tensor>(tensor);
    plain_written.insert(plain_written.end(), tensors.begin(), tensors.end());
  }
  if (!any) return recorder.host_step(name, inputs, written, std::move(step));
  recorder.host_step(
      name, plain, plain_written,
      [parts = std::move(parts), step = std::move(step)](at::ArrayRef<Tensor> now) { step(put_together(now, parts)); });
}

}  // namespace

void record_in_front(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) {
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  const bool makes_tensors = !any_tensor(arguments) && !op.schema().returns().empty() && !decomposes(op);
  if (makes_tensors && op.schema().name().rfind("aten::", 0) == 0) return record(op, info_of(op), stack);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kFrontKey), &stack);
}

// The difference of two sets leaves the bit of the backend.
c10::DispatchKeySet NotRecorded::without_recording(c10::DispatchKeySet keys) {
  const c10::DispatchKeySet rest = keys - c10::DispatchKeySet{kRecordKey, kFrontKey};
  const c10::DispatchKeySet backend(c10::BackendComponent::PrivateUse2Bit);
  return {c10::DispatchKeySet::RAW, rest.raw_repr() & ~backend.raw_repr()};
}

void CallRecorder::step_aside() {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = NotRecorded::without_recording(keys.included_);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
  const ThreadViewGuard as_the_view_wants(ThreadView::current());
}

void CallRecorder::run_below(const c10::OperatorHandle& op, Stack& stack) { call_below(op, stack); }

void CallRecorder::run_below(const HostStep& step, at::ArrayRef<Tensor> inputs) {
  const NotRecorded keys;
  step(inputs);
}

void host_step(const char* name, at::ArrayRef<Tensor> inputs, at::ArrayRef<Tensor> written, HostStep step) {
  if (OuterRecorder::current()) {
    if (written.empty()) {  // a check, which the program that is saved does without
      const OuterRecordGuard unseen(nullptr);
      return step(inputs);
    }
    throw Error(ErrorCode::failed_precondition,
                str("saved_model: '", name,
                    "' works on the memory of tensors by C++, which cannot be saved; leave it "
                    "out of the signature's function"));
  }
  {
    const RecorderAside recorder;
    if (recorder.records()) return record_step(*recorder.get(), name, inputs, written, std::move(step));
  }
  step(inputs);
}

void communicated(CommunicationCounter& counter, int64_t bytes) {
  if (CallRecorder* const recorder = CallRecorder::current()) return recorder->communicates(counter, bytes);
  counter.record(bytes);
}

void reads_memory(const char* who) {
  if (auto* recorder = CallRecorder::current())
    recorder->refuse(Error(ErrorCode::failed_precondition,
                           str(who,
                               ": reads numbers out of a tensor while a function is recorded, and a replay would go "
                               "on with the old ones; take it out of the function")));
}

RecordGuard::RecordGuard(CallRecorder& recorder)
    : previous_(CallRecorder::exchange_current(&recorder)), before_(keys_when_ready()) {
  c10::impl::tls_set_dispatch_key_excluded(kFrontKey, false);
  c10::impl::tls_set_dispatch_key_included(kFrontKey, true);
  c10::impl::tls_set_dispatch_key_included(kRecordKey, true);
}

RecordGuard::~RecordGuard() {
  c10::impl::_force_tls_local_dispatch_key_set(before_);
  CallRecorder::exchange_current(previous_);
}

UnrecordedGuard::UnrecordedGuard()
    : recorder_(CallRecorder::exchange_current(nullptr)), before_(c10::impl::tls_local_dispatch_key_set()) {
  if (!recorder_) return;
  c10::impl::LocalDispatchKeySet keys = before_;
  keys.included_ = NotRecorded::without_recording(keys.included_);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

UnrecordedGuard::~UnrecordedGuard() {
  if (!recorder_) return;
  c10::impl::_force_tls_local_dispatch_key_set(before_);
  CallRecorder::exchange_current(recorder_);
}

}  // namespace tutti
