#include "tutti/tensor/execute.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <span>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/mesh/shard.h"
#include "tutti/tensor/alias.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/copied_view.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/local_arguments.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/mesh_members.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/strides.h"
#include "tutti/tensor/sum_buffers.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

using at::IValue;

void finish_write(const Tensor& tensor, int) { mesh_impl(tensor).finish_write(); }

// Replaces every defined tensor in `value` by `wrap(tensor)`.
template <class Wrap>
void wrap_tensors(IValue& value, Wrap wrap) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) value = wrap(std::move(value).toTensor());
    return;
  }
  if (!value.isTensorList()) return;
  c10::List<Tensor> list;
  for (const Tensor& tensor : value.toTensorVector()) list.push_back(tensor.defined() ? wrap(tensor) : tensor);
  value = std::move(list);
}

// A view shares what replicas see of its base; one made in inference mode has the base's keys.
void follow_base(const Tensor& view, const Tensor& base) {
  auto& impl = mesh_impl(view);
  impl.share_replica_values(mesh_impl(base));
  impl.copied_view = mesh_impl(base).copied_view;
  if (c10::InferenceMode::is_enabled()) impl.take_keys(mesh_impl(base));
}

const Spec* result_spec(const Plan::Result& result, const MeshShape* shape, at::IntArrayRef sizes) {
  std::atomic_ref<const Spec*> last(result.last_spec);
  const Spec* spec = last.load(std::memory_order_relaxed);
  if (spec && spec->sizes == sizes) return spec;
  spec = intern(shape, result.axes, 0, sizes);
  last.store(spec, std::memory_order_relaxed);
  return spec;
}

// Of a result that is combined from parts: `piece` is the first device's, or a buffer that holds all pieces.
void record_parts(const Plan::Result& result, const MeshShape* shape, const Tensor& piece) {
  if (!result.counter) return;
  int64_t bytes = piece.element_size();
  for (int64_t axis = 0; axis < piece.dim(); ++axis) {
    const int8_t dimension = shape->merged() ? result.axes[static_cast<size_t>(axis)] : int8_t{-1};
    const int64_t size = piece.size(axis);
    bytes *= dimension < 0 ? size : shard_begin(size, shape->sizes[static_cast<size_t>(dimension)], 1);
  }
  communicated(*result.counter, bytes);
}

Tensor wrap_buffer(Tensor buffer, const MeshShape* shape, const Plan::Result* layout) {
  if (!layout) return make_mesh_tensor(shape, std::move(buffer));
  record_parts(*layout, shape, buffer);
  const Spec* spec = result_spec(*layout, shape, buffer.sizes());
  return make_mesh_tensor(spec, std::move(buffer));
}

// After an op that writes, also where it failed: components that a program holds are the replicas' own again.
class HeldComponents {
 public:
  HeldComponents(const OperatorInfo& info, at::ArrayRef<IValue> arguments) {
    if (!info.writes_any) return;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (info.writes[i]) for_each_mesh_tensor(arguments[i], [&](const Tensor& t, int) { written_.push_back(t); });
  }
  ~HeldComponents() {
    for (const Tensor& tensor : written_)
      if (auto* values = mesh_impl(tensor).replica_values()) values->refresh_held();
  }
  HeldComponents(const HeldComponents&) = delete;
  HeldComponents& operator=(const HeldComponents&) = delete;

 private:
  c10::SmallVector<Tensor, 2> written_;
};

// The call itself. LibTorch's kernels may leave anything in the place of results that are not asked for.
void call_op(const c10::OperatorHandle& op, const OperatorInfo& info, Stack& stack) {
  if (info.sparse_form && info.sparse_form(stack)) return;
  const IValue mask = info.output_mask < 0
                          ? IValue()
                          : torch::jit::peek(stack, static_cast<size_t>(info.output_mask), info.num_arguments);
  op.callBoxed(stack);
  if (mask.isNone()) return;
  const auto asked = mask.toBoolList();
  for (size_t r = 0; r < info.num_returns; ++r)
    if (r < asked.size() && !asked[r]) torch::jit::peek(stack, r, info.num_returns) = Tensor();
}

void record(const Plan& plan, at::ArrayRef<IValue> arguments) {
  for (const auto& operand : plan.operands) {
    if (!operand.relayout) continue;
    const IValue& value = arguments[static_cast<size_t>(operand.argument)];
    const Tensor& tensor =
        operand.item < 0 ? value.toTensor() : value.toListRef()[static_cast<size_t>(operand.item)].toTensor();
    operand.relayout->record(tensor.element_size());
  }
}

}  // namespace

void run_on_one_buffer(const c10::OperatorHandle& op, const OperatorInfo& info, const MeshShape* shape,
                       const Plan* plan, Stack& stack) {
  const size_t first = stack.size() - info.num_arguments;
  if (plan) record(*plan, torch::jit::last(stack, info.num_arguments));
  const HeldComponents held(info, torch::jit::last(stack, info.num_arguments));
  c10::SmallVector<std::pair<size_t, IValue>, 2> kept;  // arguments that come back as results, and the base of a view
  for (size_t i = 0; i < info.num_arguments; ++i) {
    IValue& value = stack[first + i];
    if (info.writes[i] || (info.is_view && i == 0)) kept.emplace_back(i, value);
    replace_mesh_tensors(value, [&](const Tensor& t, int) -> const Tensor& {
      return info.writes[i] ? mesh_impl(t).write()[0] : mesh_impl(t).read()[0];
    });
  }
  call_op(op, info, stack);
  for (const auto& [i, value] : kept)
    if (info.writes[i]) for_each_mesh_tensor(value, finish_write);

  const size_t results = stack.size() - info.num_returns;
  for (size_t r = 0; r < info.num_returns; ++r) {
    IValue& value = stack[results + r];
    const Plan::Result* layout = plan && r < plan->results.size() ? &plan->results[r] : nullptr;
    if (const int8_t argument = info.written_return[r]; argument >= 0) {
      if (layout && value.isTensor()) record_parts(*layout, shape, value.toTensor());
      for (const auto& [i, original] : kept)
        if (i == static_cast<size_t>(argument)) value = original;
      continue;
    }
    wrap_tensors(value, [&](Tensor tensor) {
      Tensor result = wrap_buffer(std::move(tensor), shape, layout);
      if (info.is_view && is_mesh_tensor(kept[0].second.toTensor())) follow_base(result, kept[0].second.toTensor());
      return result;
    });
  }
}

namespace {

Tensor combined(Combination combination, c10::SmallVector<Tensor, 8> terms) {
  if (terms.size() == 1) return std::move(terms[0]);
  if (combination == Combination::sum) {
    BufferSum sum{.values = std::move(terms)};
    sum_buffers({&sum, 1});
    return std::move(sum.result);
  }
  Tensor result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    const Tensor term = terms[i].to(result.device());
    switch (combination) {
      case Combination::sum: break;
      case Combination::product: result = result.mul(term); break;
      case Combination::maximum: result = at::maximum(result, term); break;
      case Combination::minimum: result = at::minimum(result, term); break;
    }
  }
  return result;
}

// Joins what the calls returned for one result into its components: the first of equal values, or all parts combined.
Components components_of(const MeshShape* shape, const Plan::Result& result, at::ArrayRef<Tensor> of_call) {
  Components components;
  for (const auto& calls : result.terms) {
    if (calls.empty()) {
      components.emplace_back();
      continue;
    }
    c10::SmallVector<Tensor, 8> terms;
    for (const Plan::Index call : calls) terms.push_back(of_call[call]);
    Tensor value = combined(result.combination, std::move(terms));
    if (!shape->mesh.shares_memory()) {
      value = value.to(torch_device(shape->mesh.devices()[components.size()]));
      const auto is_value = [&](const Tensor& earlier) { return are_aliases(earlier, value); };
      if (std::ranges::any_of(components, is_value)) value = value.clone();  // of another part of one GPU
    }
    components.push_back(std::move(value));
  }
  return components;
}

// Global sizes: the rule's along a sharded axis, of which every piece must be what it says; else those of a piece.
at::DimVector sizes_of(const std::string& op, const Plan::Result& result, const Components& components) {
  const size_t rank = result.axes.size();
  at::DimVector sizes(first_here(components).sizes());
  for (size_t i = 0; i < components.size(); ++i) {
    if (!components[i].defined()) continue;
    bool fits = components[i].sizes().size() == rank;
    for (size_t axis = 0; fits && axis < rank; ++axis) {
      const int64_t length = result.lengths[i * rank + axis];
      fits = length < 0 || length == components[i].sizes()[axis];
    }
    if (!fits)
      throw Error(ErrorCode::internal, str(op, ": the call for piece ", i, " returned shape ",
                                           str_list(components[i].sizes()), ", which its rule does not expect"));
  }
  for (size_t axis = 0; axis < rank; ++axis)
    if (result.axes[axis] >= 0) sizes[axis] = result.sizes[axis];
  return sizes;
}

// The mesh tensor of a result that LibTorch gives these strides, where it is known what it gives. In one buffer it lies
// so, but for a view, whose memory is its base's or stands for that.
Tensor with_strides(const Spec* spec, Components components, at::OptionalIntArrayRef strides, bool is_view) {
  if (strides && !is_view && components.size() == 1) components[0] = laid_out(components[0], *strides);
  return make_mesh_tensor(spec, std::move(components), strides);
}

}  // namespace

Tensor with_strides_of(const Plan& plan, size_t result, const Tensor& tensor) {
  if (!tensor.defined() || !is_mesh_tensor(tensor)) return tensor;
  const auto strides = plan.geometries.strides(result, -1, tensor.sizes());
  if (!strides || are_same_strides(tensor.sizes(), tensor.strides(), *strides)) return tensor;
  auto& impl = mesh_impl(tensor);
  return with_strides(impl.spec(), impl.read_here(), strides, false);
}

namespace {

Tensor assemble(const OperatorInfo& info, const MeshShape* shape, const Plan& plan, size_t r, int item,
                at::ArrayRef<Tensor> of_call) {
  if (std::none_of(of_call.begin(), of_call.end(), [](const Tensor& t) { return t.defined(); })) return {};
  const Plan::Result& result = plan.results[r];
  Components components = components_of(shape, result, of_call);
  record_parts(result, shape, first_here(components));
  const Spec* spec = result_spec(result, shape, sizes_of(info.name, result, components));
  return with_strides(spec, std::move(components), plan.geometries.strides(r, item, spec->sizes), info.is_view);
}

// Combines the results of calls that worked on parts of an axis, all results of a call at once.
void merge_calls(const Plan& plan, at::ArrayRef<IValue> returned) {
  const auto calls = static_cast<size_t>(plan.num_calls);
  c10::SmallVector<Tensor, 4> results, later;
  for (size_t c = 0; c < calls; ++c) {
    const size_t first = plan.first_term[c];
    if (first == c || plan.idle[c] || !(plan.is_made[c] || plan.is_combined_across)) continue;
    results.clear();
    later.clear();
    for (size_t r = 0; r < plan.results.size(); ++r) {
      results.push_back(returned[r * calls + first].toTensor());
      later.push_back(returned[r * calls + c].toTensor().to(results.back().device()));
    }
    plan.merge(results, later);
  }
}

// Of a divided mesh: each process gets what the calls of the others returned for results that are combined over
// processes. So all combine the same, in the same order.
void gather_terms(const OperatorInfo& info, const MeshShape* shape, const Plan& plan, std::span<IValue> returned) {
  const auto calls = static_cast<size_t>(plan.num_calls);
  const auto for_each_term = [&](int process, auto f) {
    for (size_t r = 0; r < std::min(plan.results.size(), info.num_returns); ++r)
      for (size_t c = 0; c < calls; ++c)
        if (!plan.idle[c] && shape->owner(static_cast<int>(c), plan.calls) == process &&
            (plan.merge || shape->crosses(plan.results[r].parts)))
          f(returned[r * calls + c]);
  };
  std::vector<Tensor> own;
  for_each_term(shape->division.rank, [&](const IValue& value) { own.push_back(value.toTensor()); });
  auto all = gather_over_members(*shape, own, info.name, shape->home);
  for (int process = 0; process < shape->division.processes; ++process) {
    size_t next = 0;
    auto& terms = all[static_cast<size_t>(process)];
    for_each_term(process, [&](IValue& value) { value = std::move(terms.at(next++)); });
  }
}

// The op that was asked for.
struct Request {
  const c10::OperatorHandle& op;
  const OperatorInfo& info;
  const c10::SmallVector<IValue, 8> arguments;

  Request(const c10::OperatorHandle& op, const OperatorInfo& info, const Stack& stack)
      : op(op), info(info), arguments(stack.end() - static_cast<std::ptrdiff_t>(info.num_arguments), stack.end()) {}
};

// Puts the results of an op in the place of its arguments. `values`: what each return is for the first call, `stride`
// apart. make(r, item) makes the mesh tensor of a return, of a list that of an item, else item is -1. A view is made an
// alias of its base, and one that had to be `copied` remembers where it came from.
template <class Make>
void replace_by_results(const Request& request, at::ArrayRef<IValue> values, size_t stride, bool copied, Stack& stack,
                        Make make) {
  const OperatorInfo& info = request.info;
  const auto made = [&](size_t r, int item) {
    Tensor result = make(r, item);
    if (!info.is_view || !result.defined()) return result;
    const Tensor& base = request.arguments[0].toTensor();
    follow_base(result, base);
    auto& impl = mesh_impl(result);
    if (copied && (impl.mesh_shape()->divided() || !lies_in(mesh_impl(base).components(), impl.components())))
      impl.copied_view = std::make_shared<CopiedView>(request.op, request.arguments, item, impl);
    return result;
  };
  torch::jit::drop(stack, info.num_arguments);
  for (size_t r = 0; r < info.num_returns; ++r) {
    const IValue& value = values[r * stride];
    if (info.written_return[r] >= 0) {
      stack.push_back(request.arguments[static_cast<size_t>(info.written_return[r])]);
    } else if (value.isTensor()) {
      stack.emplace_back(made(r, -1));
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (size_t item = 0; item < value.toListRef().size(); ++item) list.push_back(made(r, static_cast<int>(item)));
      stack.emplace_back(std::move(list));
    } else {
      stack.push_back(value);
    }
  }
}

void record_written_parts(const Request& request, const MeshShape* shape, const Plan& plan) {
  for (size_t r = 0; r < std::min(plan.results.size(), request.info.num_returns); ++r) {
    const int8_t argument = request.info.written_return[r];
    if (argument < 0) continue;
    const IValue& written = request.arguments[static_cast<size_t>(argument)];
    if (written.isTensor())
      record_parts(plan.results[r], shape, first_here(mesh_impl(written.toTensor()).components()));
  }
}

// The tensor of a returned value that is one, or of an item of a list; undefined where the call was not made.
Tensor returned_tensor(const IValue& value, int item) {
  return item < 0 || value.isTensor() ? value.toTensor() : value.toListRef()[static_cast<size_t>(item)].toTensor();
}

// view() needs a contiguous piece where the whole was contiguous; a copy then stands for the view. A piece without
// elements gets strides that suit every op.
bool make_viewable(const OperatorInfo& info, Stack& call) {
  if (info.is_view && call[0].toTensor().numel() == 0 && looks_at_strides_of_nothing(info.name)) {
    const Tensor& piece = call[0].toTensor();
    const Tensor nothing = at::empty(piece.sizes(), piece.options());
    if (piece.is_conj()) nothing._set_conj(true);
    if (piece.is_neg()) nothing._set_neg(true);
    call[0] = nothing;
  }
  if (!info.is_reshape || call[0].toTensor().is_contiguous()) return false;
  call[0] = call[0].toTensor().contiguous();
  return true;
}

bool begin_alike(const Tensor& a, const Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.storage_offset() == b.storage_offset();
}

// Of two tensors that show the same elements the pieces may have other strides along an axis where they have one index
// alone. LibTorch would take that for an overlap.
void show_alike(const OperatorInfo& info, Stack& call) {
  if (!info.writes_any) return;
  for (size_t i = 0; i < call.size(); ++i) {
    if (!info.writes[i] || !call[i].isTensor()) continue;
    const Tensor& written = call[i].toTensor();
    for (size_t k = 0; k < call.size(); ++k) {
      if (info.writes[k] || !call[k].isTensor()) continue;
      const Tensor& read = call[k].toTensor();
      const bool other_strides =
          written.defined() && read.defined() && read.sizes() == written.sizes() && read.strides() != written.strides();
      if (other_strides && are_same_strides(read.sizes(), read.strides(), written.strides()) &&
          begin_alike(read, written))
        call[k] = read.as_strided(written.sizes(), written.strides());
    }
  }
}

}  // namespace

void run_on_pieces(const c10::OperatorHandle& op, const OperatorInfo& info, const MeshShape* shape, const Plan& plan,
                   Stack& stack) {
  const Request request(op, info, stack);
  const auto& arguments = request.arguments;
  const HeldComponents held(info, arguments);
  const LocalArguments local(info, plan, arguments);
  bool copied = false;
  const size_t calls = static_cast<size_t>(plan.num_calls);
  c10::SmallVector<IValue, 16> returned(info.num_returns * calls, IValue(Tensor()));
  Stack call;
  size_t first_made = calls;
  for (size_t c = 0; c < calls; ++c) {
    if (!plan.is_made[c]) continue;
    first_made = std::min(first_made, c);
    local.of_call(c, call);
    copied |= make_viewable(info, call) && info.is_view;
    show_alike(info, call);
    if (plan.accumulate)
      if (const size_t first = plan.first_term[c]; first != c) {
        plan.accumulate(returned[first].toTensor(), call);
        continue;
      }
    if (plan.local_call)
      plan.local_call(op, call, plan.piece_of_call[c]);
    else
      call_op(op, info, call);
    for (size_t r = 0; r < info.num_returns; ++r) returned[r * calls + c] = std::move(call[r]);
  }
  if (plan.is_combined_across) gather_terms(info, shape, plan, {returned.data(), returned.size()});
  if (plan.merge) merge_calls(plan, returned);
  if (first_made == calls) first_made = 0;                        // of which the process that made it has told
  copied |= info.is_view && info.is_reshape && shape->divided();  // what one process must copy all take for a copy
  copied |= info.is_view && plan.operands[0].relayout.has_value();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (info.writes[i]) for_each_mesh_tensor(arguments[i], finish_write);
  record_written_parts(request, shape, plan);
  c10::SmallVector<Tensor, 8> of_call(calls);
  const auto values = at::ArrayRef<IValue>(returned).slice(first_made);
  replace_by_results(request, values, calls, copied, stack, [&](size_t r, int item) {
    for (size_t c = 0; c < calls; ++c) of_call[c] = returned_tensor(returned[r * calls + c], item);
    return assemble(info, shape, plan, r, item, of_call);
  });
}

namespace {

// Puts a whole value into a tensor, in place where its sizes are the same.
void write_back(MeshTensorImpl& impl, const Tensor& value) {
  const Spec* spec = impl.spec();
  if (value.sizes() != spec->sizes) {
    spec = intern_replicated(impl.mesh_shape(), value.sizes());
    return impl.assign(spec, cut(value, spec), value.strides());
  }
  put(value, spec, impl.write_here());
  impl.finish_write();
}

void require_fit(const MeshTensorImpl& written, const Tensor& value) {
  if ((written.is_part() || written.is_alias()) && value.sizes() != written.sizes())
    refuse_other_shape(value.sizes(), written.sizes());
}

// An op that names strides means places in the memory of the whole tensor: the call gets it so. Returns whether that is
// a copy. Throws: unimplemented for places that a view does not show.
bool lay_out_as_named(const c10::OperatorHandle& op, at::ArrayRef<IValue> arguments, Stack& call) {
  const Tensor& tensor = arguments[0].toTensor();
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::unimplemented,
                str(op.schema().name(), " of a view of separate buffers: ", what,
                    " of the tensor that was viewed; call it on that tensor, or on a clone() of the view"));
  };
  const bool names_begin =
      std::any_of(arguments.begin() + 1, arguments.end(), [](const IValue& v) { return v.isInt(); });
  if (mesh_impl(tensor).is_part() && names_begin) refuse("its offset is one in the memory");
  const Tensor gathered = call[0].toTensor(), memory = laid_out(gathered, tensor.strides());
  const bool shows_all = tensor.is_non_overlapping_and_dense() && !mesh_impl(tensor).is_part();
  if (!shows_all && !op.schema().name().ends_with("_scatter")) {
    const Tensor shown = laid_out(at::ones_like(gathered, at::kBool), tensor.strides());
    const at::DimVector sizes = call[1].toDimVector(), strides = call[2].toDimVector();
    const size_t bytes =
        at::detail::computeStorageNbytes(at::IntArrayRef(sizes), at::IntArrayRef(strides), shown.element_size());
    if (bytes > shown.storage().nbytes() || !shown.as_strided(sizes, strides).all().item<bool>())
      refuse("it asks for elements");
  }
  call[0] = memory;
  return !memory.is_same(gathered);
}

}  // namespace

void run_drawn(const c10::OperatorHandle& op, const OperatorInfo& info, Stack& stack) {
  const size_t first = stack.size() - info.num_arguments;
  const Tensor target = stack[first].toTensor();
  auto& impl = mesh_impl(target);
  const Tensor whole = at::empty_strided(target.sizes(), target.strides(), impl.meta().options());
  stack[first] = whole;
  op.callBoxed(stack);
  write_back(impl, whole);
  torch::jit::drop(stack, info.num_returns);
  stack.push_back(target);
}

void run_gathered(const c10::OperatorHandle& op, const OperatorInfo& info, const MeshShape* shape, const Plan& plan,
                  Stack& stack) {
  const Request request(op, info, stack);
  const auto& arguments = request.arguments;
  Stack call;
  LocalArguments(info, plan, arguments).of_call(0, call);
  bool copied = make_viewable(info, call);
  if (names_strides(info.name)) copied |= lay_out_as_named(op, arguments, call);
  const auto keeps_strides = [&](size_t i) {  // of which some ops ask views; what repeats elements is written as such
    if (info.is_view || !arguments[i].isTensor() || !arguments[i].toTensor().defined()) return false;
    return info.draws || !info.writes[i] || repeats_elements(arguments[i].toTensor());
  };
  for (size_t i = 0; i < arguments.size(); ++i)
    if (keeps_strides(i)) call[i] = laid_out(call[i].toTensor(), arguments[i].toTensor().strides());
  const Stack gathered(call);
  call_op(op, info, call);
  const auto for_each_written = [&](const auto& f) {  // with what is written to it
    for (size_t i = 0; i < arguments.size(); ++i)
      if (info.writes[i])
        for_each_mesh_tensor(arguments[i], [&](const Tensor& written, int item) {
          const IValue& value = gathered[i];
          f(mesh_impl(written), item < 0 ? value.toTensor() : value.toListRef()[static_cast<size_t>(item)].toTensor());
        });
  };
  for_each_written(require_fit);
  for_each_written(write_back);  // into the pieces
  copied |= info.is_view && (plan.operands[0].relayout || mesh_impl(arguments[0].toTensor()).components().size() > 1);
  replace_by_results(request, call, 1, info.is_view && copied, stack, [&](size_t r, int item) {
    const Tensor value = returned_tensor(call[r], item);
    if (!value.defined()) return value;
    const auto strides = plan.geometries.strides(r, item, value.sizes());
    if (!strides) return make_mesh_tensor(shape, value);
    const Spec* spec = intern_replicated(shape, value.sizes());
    return with_strides(spec, cut(value, spec), strides, info.is_view);
  });
}

}  // namespace tutti
