#include "tutti/tensor/rules/op_traits.h"

#include <algorithm>
#include <array>

namespace tutti {

// einsum has a rule and a gradient of its own.
bool is_composed(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && op.operator_name().name != "aten::einsum";
}

bool is_composed_below_autograd(const std::string& name) {
  return name.starts_with("aten::_foreach_") || name == "aten::dist" || name == "aten::rsub";
}

std::optional<size_t> tensor_of_numbers(const c10::FunctionSchema& schema) {
  if (!is_composed_below_autograd(schema.name())) return {};
  const auto position = schema.argumentIndexWithName("scalars");
  if (!position || schema.arguments()[static_cast<size_t>(*position)].type()->kind() != c10::TypeKind::TensorType)
    return {};
  return static_cast<size_t>(*position);
}

// That attention is tagged for a dropout that it does not have.
bool draws_numbers(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded) &&
         op.schema().name() != "aten::_scaled_dot_product_flash_attention_for_cpu";
}

// The running statistics of batch norms.
c10::SmallVector<int, 2> unnamed_writes(const c10::FunctionSchema& schema) {
  if (!schema.name().ends_with("batch_norm") || schema.arguments().size() < 5 ||
      schema.arguments()[3].name() != "running_mean")
    return {};
  return {3, 4};
}

bool changes_geometry(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::inplace_view) && !detaches(op.schema().name());
}

bool detaches(const std::string& name) { return name == "aten::detach_"; }

c10::OperatorName name_of_view_form(const c10::OperatorName& name) {
  const std::string view = name.name.substr(0, name.name.size() - 1);
  return {view, view == "aten::transpose" ? "int" : name.overload_name};
}

bool replaces_memory(const std::string& name) { return name == "aten::set_"; }

bool shares_memory_unsaid(const std::string& name) { return name.starts_with("aten::unsafe_split"); }

bool keeps_order(const std::string& name) { return name == "aten::view" || name == "aten::_unsafe_view"; }

bool looks_at_strides_of_nothing(const std::string& name) {
  return name == "aten::view_as_complex" || name == "aten::view";  // as another dtype
}

size_t argument_of_row_numbers(const std::string& name) {
  if (name == "aten::embedding" || name == "aten::embedding_bag" || name == "aten::_embedding_bag" ||
      name == "aten::_embedding_bag_forward_only")
    return 1;
  return name == "aten::index_select" ? 2 : 0;
}

bool pads_from_end(const std::string& name) { return name == "aten::embedding_bag"; }

bool draws_in_order(const std::string& name) { return name == "aten::normal_" || name == "aten::uniform_"; }

bool keeps_sizes_of_first(const std::string& name) { return name == "aten::copy"; }

bool copies_values(const std::string& name) { return name == "aten::copy_"; }

bool may_write_overlaps(const std::string& name) {
  constexpr std::array kOps = {"aten::fill_",       "aten::zero_",      "aten::masked_fill_",
                               "aten::index_fill_", "aten::index_put_", "aten::_index_put_impl_",
                               "aten::tril_",       "aten::triu_",      "aten::fill_diagonal_",
                               "aten::nan_to_num_", "aten::threshold_", "aten::conj_physical_"};
  return std::find(kOps.begin(), kOps.end(), name) != kOps.end();
}

bool puts_at_indices(const std::string& name) { return name == "aten::index_put_" || name == "aten::_index_put_impl_"; }

bool looks_at_lazy_bits(const std::string& name) { return name == "aten::view"; }  // as another dtype

bool gives_back_nothing(const std::string& name) { return name == "aten::native_dropout"; }

bool names_strides(const std::string& name) { return name.starts_with("aten::as_strided"); }

bool asks_if_contiguous(const std::string& name) {
  return name == "aten::_linalg_det" || name == "aten::_linalg_slogdet" || name == "aten::_linalg_solve_ex";
}

bool chooses_strides(const std::string& name) {
  const bool pads = name.starts_with("aten::reflection_pad") || name.starts_with("aten::replication_pad");
  const bool is_known = name.ends_with("_pad2d") || name.ends_with("_pad3d");  // results_of_kernel
  return (pads && !is_known) || name.starts_with("aten::log_sigmoid_forward");
}

bool requires_type_of_result(const std::string& name, bool is_complex) {
  constexpr std::array kOps = {"aten::frobenius_norm", "aten::nanmean", "aten::log_sigmoid",
                               "aten::adaptive_avg_pool1d", "aten::multilabel_margin_loss"};
  const bool conjugates = name == "aten::fft_ifft" || name == "aten::fft_ihfft";  // a transform of real numbers
  return (conjugates && !is_complex) || std::find(kOps.begin(), kOps.end(), name) != kOps.end();
}

bool renames_out(const std::string& name) {
  return name == "aten::absolute" || (name.starts_with("aten::special_") && name != "aten::special_ndtr");
}

bool requires_real_out(const std::string& name) { return name == "aten::fft_hfft2" || name == "aten::fft_hfftn"; }

bool computes_in_type_of_out(const std::string& name) { return name == "aten::nanmean"; }

bool gives_plain_values(const std::string& name) { return name == "aten::copy_"; }

bool names_device(const c10::FunctionSchema& schema, at::ArrayRef<at::IValue> arguments) {
  if (schema.name() != "aten::to") return false;
  const auto device = schema.argumentIndexWithName("device");
  return device && !arguments[static_cast<size_t>(*device)].isNone();
}

bool makes_sparse(const std::string& name) { return name.starts_with("aten::_sparse_coo_tensor"); }

bool adds(const std::string& name) { return name == "aten::add" || name == "aten::add_"; }

bool asks_of_types(const std::string& name) { return name == "aten::_has_compatible_shallow_copy_type"; }

}  // namespace tutti
