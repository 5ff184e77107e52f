#include "catalogue.h"

#include <algorithm>
#include <map>

#include "program.h"
#include "tests/support/test_devices.h"

namespace tutti::fuzz {
namespace {

// What LibTorch computes otherwise on a kind of devices that it does not know, as those that are simulated, and what
// names the device.
constexpr const char* kLeftOutOnGpus[] = {
    "channel_shuffle", "max_pool1d", "layer_norm", "scaled_dot_product", "silu", "mish", "get_device", "_softmax"};

// Other devices and layouts, ops that only LibTorch itself calls, ops without a defined value (empty, resize), and the
// few that end the process on arguments that do not fit, in LibTorch alone. _fft_r2c.out fills a real out= as if its
// memory were of complex numbers.
constexpr const char* kLeftOut[] = {"_fft_r2c.out",
                                    "cudnn",
                                    "miopen",
                                    "mkldnn",
                                    "cuda",
                                    "quant",
                                    "fbgemm",
                                    "sparse",
                                    "nested",
                                    "fake_",
                                    "xnnpack",
                                    "xpu",
                                    "mkl",
                                    "hspmm",
                                    "sspaddmm",
                                    "smm",
                                    "coalesce",
                                    "crow_ind",
                                    "ccol_ind",
                                    "col_indices",
                                    "row_indices",
                                    "vulkan",
                                    "_backward",
                                    "_test_",
                                    "from_file",
                                    "pin_memory",
                                    "is_pinned",
                                    "record_stream",
                                    "empty",
                                    "resize",
                                    "set_",
                                    "set.",
                                    "sym_",
                                    "_copy.out",
                                    "int_repr",
                                    "q_",
                                    "_jvp",
                                    "jagged",
                                    "padded",
                                    "segment_",
                                    "unflatten_dense",
                                    "flatten_dense",
                                    "values",
                                    "to_dense",
                                    "to_mkl",
                                    "_dim_arange",
                                    "batch_norm_",
                                    "lstm.data",
                                    "gru.data",
                                    "rnn_tanh.data",
                                    "rnn_relu.data",
                                    "_thnn",
                                    "qscheme",
                                    "requires_grad_",
                                    "retain",
                                    "output_nr",
                                    "_version",
                                    "promote_types",
                                    "can_cast",
                                    "result_type",
                                    "data_ptr",
                                    "storage",
                                    "choose_q",
                                    "_unique",
                                    "overrideable",
                                    "lift",
                                    "_autocast",
                                    "to.device",  // which gives a plain tensor
                                    "to.dtype_layout",
                                    "to.prim",
                                    "_to_copy",
                                    "_to_cpu",
                                    "cpu",
                                    "cummaxmin",
                                    "_indices",
                                    "_nnz",
                                    "sparse_dim",
                                    "dense_dim",
                                    "is_coalesced",
                                    "_values",
                                    "is_inference",
                                    "is_same_size",
                                    "hash_tensor",
                                    "lobpcg",
                                    "rrelu",
                                    "_with_indices.out",
                                    "grid_sampler_2d_cpu",
                                    "histogramdd",
                                    "_cslt",
                                    "nonzero_static",
                                    "embedding_renorm",
                                    "get_gradients",
                                    "rename",
                                    "align_",
                                    "refine_names",
                                    "new_",
                                    "_like",
                                    "_data",
                                    "slice_inverse",
                                    "_dyn_quant",
                                    "ctc_loss",
                                    "_weight_int",
                                    "special_airy",
                                    "_linalg_check",
                                    "data",
                                    "stft",
                                    "istft",
                                    "stride.",  // which is compared of all results
                                    "mkldnn",
                                    "_to_dense",
                                    "binomial",           // of some probabilities never ends
                                    "native_group_norm",  // reads expanded weights past their end
                                    "linalg_lstsq",       // pivots in an order that nobody has initialized
                                    "multilabel_margin_loss_forward"};  // of no elements returns what lay there

// Ops of LibTorch's own modules and optimizers whose names begin with an underscore. Not those that look at none of
// their operands' sizes and write past the end, as _stack, _logcumsumexp and _fft_r2c: what calls them is here.
constexpr const char* kUnderscored[] = {"_softmax",
                                        "_log_softmax",
                                        "_foreach_",
                                        "_fused_sgd",
                                        "_fused_adam",
                                        "_native_batch_norm_legit",
                                        "_cdist_forward",
                                        "__and__",
                                        "__or__",
                                        "__xor__",
                                        "__lshift__",
                                        "__rshift__",
                                        "_adaptive_avg_pool2d",
                                        "_upsample_bilinear2d_aa",
                                        "_conj",
                                        "_neg_view",
                                        "_index_put_impl_",
                                        "_unsafe_index",
                                        "_unsafe_index_put",
                                        "_trilinear",
                                        "_shape_as_tensor",
                                        "_linalg_",
                                        "_scaled_dot_product_attention_math",
                                        "_addmm_activation",
                                        "_is_all_true",
                                        "_is_any_true",
                                        "_chunk_cat",
                                        "_safe_softmax"};

// More often than others: views, writes, and what models are made of.
constexpr const char* kFrequent[] = {
    "transpose", "t",         "permute",  "slice",  "select", "narrow",       "view",         "reshape", "expand",
    "squeeze",   "unsqueeze", "diagonal", "unbind", "split",  "chunk",        "flatten",      "conj",    "detach",
    "copy_",     "add_",      "mul_",     "fill_",  "zero_",  "add",          "mul",          "matmul",  "linear",
    "sum",       "mean",      "cat",      "stack",  "index",  "index_put_",   "masked_fill_", "where",   "as_strided",
    "alias",     "clone",     "unfold",   "real",   "imag",   "view_as_real", "relu_",        "einsum"};

bool is_left_out(const std::string& name) {
  if (name[0] == '_' && std::none_of(std::begin(kUnderscored), std::end(kUnderscored),
                                     [&](const char* prefix) { return name.rfind(prefix, 0) == 0; }))
    return true;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (!test_devices_are_cpus() && std::any_of(std::begin(kLeftOutOnGpus), std::end(kLeftOutOnGpus), has)) return true;
  return std::any_of(std::begin(kLeftOut), std::end(kLeftOut), has);
}

bool takes_tensor(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    return !argument.is_out() && argument.real_type()->str().rfind("Tensor", 0) == 0;
  });
}

bool is_deprecated_form(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments())
    if (argument.real_type()->str().find("Dimname") != std::string::npos ||
        argument.real_type()->str().find("Storage") != std::string::npos ||
        argument.real_type()->str().find("Stream") != std::string::npos)
      return true;
  return false;
}

}  // namespace

std::vector<OpFamily> catalogue(const CatalogueOptions& options) {
  std::map<std::string, OpFamily> families;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasSchema()) continue;
    const std::string text = op_name(*op);
    if (is_left_out(text) || !takes_tensor(op->schema()) || is_deprecated_form(op->schema())) continue;
    if (text.find(options.only) == std::string::npos) continue;
    OpFamily& family = families[name.name.substr(6)];
    family.name = name.name.substr(6);
    family.overloads.push_back(*op);
  }
  std::vector<OpFamily> all;
  for (auto& [name, family] : families) {
    std::sort(family.overloads.begin(), family.overloads.end(),
              [](const auto& a, const auto& b) { return op_name(a) < op_name(b); });
    const bool frequent = std::find(std::begin(kFrequent), std::end(kFrequent), name) != std::end(kFrequent);
    family.weight = frequent ? 5 : name.rfind("_foreach_", 0) == 0 ? 1 : 2;
    all.push_back(std::move(family));
  }
  return all;
}

}  // namespace tutti::fuzz
