#include "tutti/tensor/looked_up_rows.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <span>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/remote_reads.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/sparse_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// The rows as a function of the table.
struct RowsFunction : torch::autograd::Function<RowsFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& table, const Tensor& numbers, const Tensor& values) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->saved_data["numbers"] = numbers;
    context->saved_data["sizes"] = table.sizes();
    return values.alias();
  }
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const Tensor& gradient = gradients[0];
    if (!gradient.defined()) return {Tensor(), Tensor(), Tensor()};
    const Tensor numbers = context->saved_data["numbers"].toTensor();
    const bool is_sparse = gradient.is_sparse();  // the op was asked for that
    const Tensor rows = is_sparse ? numbers.index_select(0, gradient._indices()[0]) : numbers;
    const auto sizes = context->saved_data["sizes"].toIntVector();
    return {sparse_tensor(rows.unsqueeze(0), is_sparse ? gradient._values() : gradient, sizes,
                          !is_sparse || gradient.is_coalesced()),
            Tensor(), Tensor()};
  }
};

class Places {
 public:
  Places(const Tensor& numbers, int64_t num_rows)
      : numbers_(numbers.const_data_ptr<int64_t>(), static_cast<size_t>(numbers.numel())), num_rows_(num_rows) {}

  // Of a row that is not among them: -1. Of none of the table: one that LibTorch refuses as it does that.
  int64_t of(int64_t row) const {
    if (row < 0) return row;
    if (row >= num_rows_) return static_cast<int64_t>(numbers_.size()) + row - num_rows_;
    const auto found = std::ranges::lower_bound(numbers_, row);
    return found != numbers_.end() && *found == row ? found - numbers_.begin() : -1;
  }
  Tensor of(const Tensor& rows) const {
    const Tensor from = rows.to(at::kLong).contiguous();
    const Tensor places = at::empty(rows.sizes(), at::TensorOptions().dtype(at::kLong));
    std::transform(from.const_data_ptr<int64_t>(), from.const_data_ptr<int64_t>() + from.numel(),
                   places.mutable_data_ptr<int64_t>(), [this](int64_t row) { return of(row); });
    return places.to(rows.scalar_type());
  }

 private:
  std::span<const int64_t> numbers_;
  int64_t num_rows_;
};

// The row that counts as none. For embedding_bag it may be numbered from the end, or be nothing.
void put_padding(const std::string& op, const Places& places, int64_t num_rows, at::IValue& row) {
  if (!row.isInt()) return;
  const bool is_optional = pads_from_end(op);
  const int64_t number = is_optional && row.toInt() < 0 ? row.toInt() + num_rows : row.toInt();
  const int64_t place = places.of(number);
  if (is_optional && number < 0) return;  // which LibTorch refuses
  row = is_optional && place < 0 ? at::IValue() : at::IValue(place);
}

Tensor rows_of(const Tensor& table, const LookedUpRows& rows) {
  const bool is_differentiated = at::GradMode::is_enabled() && table.requires_grad();
  if (in_replica_view())
    return is_differentiated ? RowsFunction::apply(local_unread(table), rows.numbers, rows.values) : rows.values;
  if (is_differentiated)
    throw Error(ErrorCode::unimplemented,
                str("a table of shape ", str_list(table.sizes()),
                    " of which this process has no copy is looked up in global view, where its gradient cannot be "
                    "taken; take gradients in strategy.run, or look up under NoGradGuard"));
  return make_mesh_tensor(mesh_impl(table).mesh_shape(), rows.values);
}

}  // namespace

void put_rows(const LookedUpRows& rows, const c10::OperatorHandle& op, size_t ids, torch::jit::Stack& stack) {
  const auto& schema = op.schema();
  const size_t first = stack.size() - schema.arguments().size();
  const Tensor table = stack[first].toTensor();
  const Places places(rows.numbers, table.size(0));
  {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard behind(kFrontKey);
    stack[first + ids] = places.of(stack[first + ids].toTensor());
  }
  if (const auto padding = schema.argumentIndexWithName("padding_idx"))
    put_padding(schema.name(), places, table.size(0), stack[first + static_cast<size_t>(*padding)]);
  stack[first] = rows_of(table, rows);
}

bool scale_sparse(const Tensor& self, const Tensor& factor) {
  if (!self.is_sparse() || self.requires_grad() || factor.dim() != 0) return false;
  self._values().mul_(factor);
  return true;
}

}  // namespace tutti
