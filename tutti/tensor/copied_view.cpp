#include "tutti/tensor/copied_view.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/core/tensor_version.h"
#include "tutti/tensor/alias.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/relayout.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/strides.h"

namespace tutti {
namespace {

// The same tensor without its gradient, which may hold a view of it.
Tensor bare(const Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return Tensor(impl->shallow_copy_and_detach(c10::VariableVersion(impl->version_counter()), true));
}

}  // namespace

CopiedView::CopiedView(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments, int item,
                       const MeshTensorImpl& view)
    : op_(op),
      arguments_(arguments.begin(), arguments.end()),
      item_(item),
      spec_(view.spec()),
      meta_(view.meta()),
      version_(version_of(arguments[0].toTensor())),
      writes_(source().writes()) {
  arguments_[0] = bare(arguments_[0].toTensor());
  for (const Tensor& piece : view.components())
    copy_.push_back(piece.defined() ? piece.detach() : piece);  // the view may get other axes in place
}

Tensor CopiedView::result_of(std::vector<at::IValue> arguments) const {
  op_.callBoxed(arguments);
  return item_ < 0 ? arguments[0].toTensor() : arguments[0].toTensorVector()[static_cast<size_t>(item_)];
}

Tensor CopiedView::view_of(const Tensor& stand_in) const {
  std::vector<at::IValue> arguments = arguments_;
  arguments[0] = stand_in;
  return result_of(std::move(arguments));
}

// Without a version counter (in inference mode) nobody knows.
bool CopiedView::is_stale() const {
  const int64_t version = version_of(viewed());
  return is_spoilt_ || version < 0 || version != version_ || source().writes() != writes_;
}

void CopiedView::refresh() {
  const std::lock_guard lock(mutex_);
  if (!is_stale()) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  version_ = version_of(viewed());
  writes_ = source().writes();
  is_spoilt_ = false;
  const Tensor now = result_of(arguments_);
  const auto& impl = mesh_impl(now);
  const Spec* spec = impl.spec();
  Components pieces = impl.components();
  if (spec != spec_) pieces = Relayout(spec, spec_, op_.schema().name(), Asked::implied).run(impl.meta(), pieces);
  for (size_t i = 0; i < copy_.size(); ++i)
    if (copy_[i].defined()) copy_into(copy_[i], pieces[i]);
}

void CopiedView::forget_write() {
  const std::lock_guard lock(mutex_);
  is_spoilt_ = true;
}

void CopiedView::write_back() {
  const std::lock_guard lock(mutex_);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Tensor& tensor = viewed();
  auto& impl = mesh_impl(tensor);
  const std::string& cause = op_.schema().name();
  const auto gathered = [&](const Spec* from, const TensorMeta& meta, const Components& pieces) {
    return Relayout(from, intern_replicated(from->shape, from->sizes), cause, Asked::implied).run(meta, pieces)[0];
  };
  // Before the tensor is read, which may be a copied view itself, and take what was written to its own tensor.
  Tensor written = gathered(spec_, meta_, copy_);
  if (std::ranges::any_of(impl.components(), [&](const Tensor& piece) { return are_aliases(piece, written); }))
    written = written.clone();
  const Tensor gathered_whole = gathered(impl.spec(), impl.meta(), impl.read_here());
  const bool lies_so =
      names_strides(cause) || repeats_elements(tensor);  // then a write to any place of an element counts
  const Tensor whole = lies_so ? laid_out(gathered_whole, tensor.strides()) : gathered_whole.contiguous();
  copy_into(view_of(whole), written);
  put(whole, impl.spec(), impl.write_here());
  impl.finish_write();
}

void refuse_other_shape(at::IntArrayRef result, at::IntArrayRef view) {
  throw Error(
      ErrorCode::unimplemented,
      str("a result of shape ", str_list(result), " is written to a view of shape ", str_list(view),
          " of separate buffers: give it a view of the result's shape, or a tensor that is no part of another"));
}

}  // namespace tutti
