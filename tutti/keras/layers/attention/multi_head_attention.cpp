#include "tutti/keras/layers/attention/multi_head_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>

#include "tutti/core/str.h"
#include "tutti/keras/layers/attention/attention_masks_internal.h"
#include "tutti/keras/layers/attention/group_query_attention.h"

namespace tutti::keras::layers {
namespace {

class MultiHeadAttentionImpl : public LayerImpl {
 public:
  MultiHeadAttentionImpl(const std::string& type, const MultiHeadAttentionOptions& options, int64_t num_key_value_heads)
      : LayerImpl(type, options.name),
        options_(options),
        value_dim_(options.value_dim.value_or(options.key_dim)),
        num_key_value_heads_(num_key_value_heads) {
    if (options_.num_heads <= 0 || options_.key_dim <= 0 || value_dim_ <= 0 || options_.output_dim.value_or(1) <= 0)
      refuse(str("num_heads ", options_.num_heads, ", key_dim ", options_.key_dim, ", value_dim ", value_dim_,
                 ", output_dim ", options_.output_dim.value_or(1), "; all must be positive"));
    if (num_key_value_heads_ <= 0 || options_.num_heads % num_key_value_heads_ != 0)
      refuse(str(num_key_value_heads_, " heads of keys and values for ", options_.num_heads,
                 " of queries; the second must be a multiple of the first"));
    if (!(options_.dropout >= 0 && options_.dropout <= 1))
      refuse(str("dropout is ", options_.dropout, "; it must lie in [0, 1]"));
    regularize_activity(options_.activity_regularizer);
  }

  void build_all(const std::vector<Shape>& input_shapes) override {
    (void)compute_output_shapes(input_shapes);
    const auto [query, value, key] = roles(input_shapes);
    for (const Shape* shape : {&query, &value, &key})
      if (shape->back() == kUnknown) refuse("the inputs' last extents must be known when the layer is built");
    const int64_t heads = options_.num_heads, shared = num_key_value_heads_;
    query_ = add_projection("query", {query.back(), heads, options_.key_dim}, {heads, options_.key_dim});
    key_ = add_projection("key", {key.back(), shared, options_.key_dim}, {shared, options_.key_dim});
    value_ = add_projection("value", {value.back(), shared, value_dim_}, {shared, value_dim_});
    const int64_t width = options_.output_dim.value_or(query.back());
    output_ = add_projection("attention_output", {heads, value_dim_, width}, {width});
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    (void)compute_output_shapes(shapes_of(inputs));
    const auto [x, source, key_source] = roles(inputs);
    const Tensor query = heads(x, query_, options_.num_heads, options_.key_dim);
    const Tensor key = for_all_heads(heads(key_source, key_, num_key_value_heads_, options_.key_dim));
    const Tensor value = for_all_heads(heads(source, value_, num_key_value_heads_, value_dim_));
    const Tensor attention_mask = inputs.size() > 3 ? inputs[3] : Tensor();
    if (attention_mask.defined() && attention_mask.scalar_type() != at::kBool)
      refuse(str("the attention mask has dtype ", c10::toString(attention_mask.scalar_type()), "; it must be bool"));
    Tensor bias = attention_bias(x, source,
                                 {.query = options.mask(0),
                                  .value = options.mask(inputs.size() > 1 ? 1 : 0),
                                  .key = inputs.size() > 2 ? options.mask(2) : Tensor(),
                                  .attention = attention_mask,
                                  .causal = options_.use_causal_mask});
    if (bias.defined() && bias.dim() == 3) bias = bias.unsqueeze(1);  // for every head

    if (!options_.return_attention_scores) {
      const Tensor mixed = at::scaled_dot_product_attention(
          query, key, value, bias.defined() ? std::optional(bias.to(query.scalar_type())) : std::nullopt,
          options.training ? options_.dropout : 0);
      return {joined(mixed)};
    }
    Tensor scores = at::matmul(query, key.transpose(-2, -1)) / std::sqrt(static_cast<double>(options_.key_dim));
    if (bias.defined()) scores = scores + bias;
    const Tensor weights = at::softmax(scores, -1);
    return {joined(at::matmul(at::dropout(weights, options_.dropout, options.training), value)), weights};
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& shapes) const override {
    if (shapes.empty() || shapes.size() > 4)
      refuse(str("takes {x}, {query, value}, {query, value, key} or {query, value, key, attention_mask}, not ",
                 shapes.size(), " inputs"));
    const auto [query, value, key] = roles(shapes);
    for (const Shape* shape : {&query, &value, &key})
      if (shape->size() != 3)
        refuse(str("an input has shape ", to_string(*shape), "; it must be [batch, steps, features]"));
    if (value[1] != key[1])
      refuse(str("value ", to_string(value), " and key ", to_string(key), " must have as many steps"));
    if (shapes.size() == 4) check_attention_mask(shapes[3], {query[0], query[1], value[1]});
    const Shape output{query[0], query[1], options_.output_dim.value_or(query[2])};
    if (options_.return_attention_scores) return {output, {query[0], options_.num_heads, query[1], value[1]}};
    return {output};
  }

  bool supports_masking() const override { return true; }

 private:
  struct Projection {
    Tensor kernel, bias;
  };

  template <class T>
  struct Roles {
    const T &query, &value, &key;
  };
  template <class T>
  static Roles<T> roles(const std::vector<T>& inputs) {
    return {inputs.front(), inputs[std::min<size_t>(inputs.size() - 1, 1)],
            inputs[std::min<size_t>(inputs.size() - 1, 2)]};
  }

  // `wanted` is [batch, query steps, value steps]; an extent of 1 serves for all.
  void check_attention_mask(const Shape& mask, const Shape& wanted) const {
    bool fits = mask.size() == wanted.size();
    for (size_t i = 0; fits && i < mask.size(); ++i)
      fits = mask[i] == wanted[i] || mask[i] == 1 || mask[i] == kUnknown || wanted[i] == kUnknown;
    if (!fits) refuse(str("the attention mask has shape ", to_string(mask), "; it must be ", to_string(wanted)));
  }

  Projection add_projection(const std::string& name, const Shape& kernel, const Shape& bias) {
    Projection projection{
        add_weight(name + "/kernel", kernel,
                   {.initializer = options_.kernel_initializer, .regularizer = options_.kernel_regularizer}),
        {}};
    if (options_.use_bias)
      projection.bias = add_weight(
          name + "/bias", bias, {.initializer = options_.bias_initializer, .regularizer = options_.bias_regularizer});
    return projection;
  }

  // x [N, T, inputs] times the kernel as a matrix [inputs, outputs], plus the bias.
  static Tensor project(const Tensor& x, const Projection& projection, int64_t inputs) {
    const Tensor kernel = projection.kernel.reshape({inputs, -1});
    const Tensor product = at::matmul(x, kernel);
    return projection.bias.defined() ? product + projection.bias.reshape({-1}) : product;
  }

  // [N, heads, T, features]
  static Tensor heads(const Tensor& x, const Projection& projection, int64_t num_heads, int64_t features) {
    return project(x, projection, x.size(2)).reshape({x.size(0), x.size(1), num_heads, features}).transpose(1, 2);
  }

  // Keys or values [N, key-value heads, S, features], each for its group of queries: [N, heads, S, features]
  Tensor for_all_heads(const Tensor& x) const {
    const int64_t group = options_.num_heads / num_key_value_heads_;
    return group == 1 ? x : x.repeat_interleave(group, 1);
  }

  // [N, heads, T, value_dim] -> [N, T, output_dim]
  Tensor joined(const Tensor& mixed) const {
    return project(mixed.transpose(1, 2).flatten(2), output_, options_.num_heads * value_dim_);
  }

  MultiHeadAttentionOptions options_;
  int64_t value_dim_;
  int64_t num_key_value_heads_;
  Projection query_, key_, value_, output_;
};

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& options)
    : Layer(std::make_shared<MultiHeadAttentionImpl>("MultiHeadAttention", options, options.num_heads), options) {}

GroupQueryAttention::GroupQueryAttention(const GroupQueryAttentionOptions& options)
    : Layer(std::make_shared<MultiHeadAttentionImpl>(
                "GroupedQueryAttention",
                MultiHeadAttentionOptions{.num_heads = options.num_query_heads,
                                          .key_dim = options.head_dim,
                                          .dropout = options.dropout,
                                          .use_bias = options.use_bias,
                                          .use_causal_mask = options.use_causal_mask,
                                          .return_attention_scores = options.return_attention_scores,
                                          .kernel_initializer = options.kernel_initializer,
                                          .bias_initializer = options.bias_initializer,
                                          .kernel_regularizer = options.kernel_regularizer,
                                          .bias_regularizer = options.bias_regularizer,
                                          .activity_regularizer = options.activity_regularizer,
                                          .name = options.name},
                options.num_key_value_heads),
            options) {}

}  // namespace tutti::keras::layers
