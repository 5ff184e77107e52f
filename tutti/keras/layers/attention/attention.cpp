#include "tutti/keras/layers/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/attention/attention_masks_internal.h"

namespace tutti::keras::layers {
namespace {

struct Common {
  double dropout;
  bool causal, returns_scores;
};

// All but the scores.
class AttentionBase : public LayerImpl {
 public:
  AttentionBase(const char* type, std::string name, const Common& options)
      : LayerImpl(type, std::move(name)), options_(options) {
    if (!(options_.dropout >= 0 && options_.dropout <= 1))
      refuse(str("dropout is ", options_.dropout, "; it must lie in [0, 1]"));
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    (void)compute_output_shapes(shapes_of(inputs));
    const Tensor &query = inputs[0], &value = inputs[1], &key = inputs.size() > 2 ? inputs[2] : value;
    Tensor scores = score(query, key);
    const Tensor bias = attention_bias(query, value, {.value = options.mask(1), .causal = options_.causal});
    if (bias.defined()) scores = scores + bias;
    const Tensor weights = at::softmax(scores, -1);
    Tensor output = at::matmul(at::dropout(weights, options_.dropout, options.training), value);
    if (options.mask(0).defined()) output = output * options.mask(0).unsqueeze(-1);
    if (options_.returns_scores) return {output, weights};
    return {output};
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& shapes) const override {
    if (shapes.size() != 2 && shapes.size() != 3)
      refuse(str("takes {query, value} or {query, value, key}, not ", shapes.size(), " inputs"));
    for (const Shape& shape : shapes)
      if (shape.size() != 3)
        refuse(str("an input has shape ", to_string(shape), "; it must be [batch, steps, features]"));
    const Shape& key = shapes.back();
    if (shapes[0][2] != key[2] || shapes[1][1] != key[1])
      refuse(str("query ", to_string(shapes[0]), ", value ", to_string(shapes[1]), " and key ", to_string(key),
                 " do not fit; query and key need as many features, value and key as many steps"));
    const Shape output{shapes[0][0], shapes[0][1], shapes[1][2]};
    if (options_.returns_scores) return {output, {shapes[0][0], shapes[0][1], shapes[1][1]}};
    return {output};
  }

  bool supports_masking() const override { return true; }

 protected:
  // [N, T, S]
  virtual Tensor score(const Tensor& query, const Tensor& key) const = 0;

 private:
  Common options_;
};

class AttentionImpl : public AttentionBase {
 public:
  explicit AttentionImpl(const AttentionOptions& options)
      : AttentionBase("Attention", options.name,
                      {options.dropout, options.use_causal_mask, options.return_attention_scores}),
        options_(options) {}

  void build_all(const std::vector<Shape>& input_shapes) override {
    (void)compute_output_shapes(input_shapes);
    if (options_.use_scale) scale_ = add_weight("scale", {}, {.initializer = initializers::Ones()});
    if (options_.score_mode == ScoreMode::concat)
      concat_score_weight_ = add_weight("concat_score_weight", {}, {.initializer = initializers::Ones()});
  }

 protected:
  Tensor score(const Tensor& query, const Tensor& key) const override {
    if (options_.score_mode == ScoreMode::dot) {
      const Tensor scores = at::matmul(query, key.transpose(-2, -1));
      return scale_.defined() ? scores * scale_ : scores;
    }
    const Tensor sums = query.unsqueeze(-2) + key.unsqueeze(-3);
    return concat_score_weight_ * (scale_.defined() ? scale_ * sums : sums).tanh().sum(-1);
  }

 private:
  AttentionOptions options_;
  Tensor scale_, concat_score_weight_;
};

class AdditiveAttentionImpl : public AttentionBase {
 public:
  explicit AdditiveAttentionImpl(const AdditiveAttentionOptions& options)
      : AttentionBase("AdditiveAttention", options.name,
                      {options.dropout, options.use_causal_mask, options.return_attention_scores}),
        use_scale_(options.use_scale) {}

  void build_all(const std::vector<Shape>& input_shapes) override {
    (void)compute_output_shapes(input_shapes);
    if (use_scale_) scale_ = add_weight("scale", {input_shapes[0].back()}, {});
  }

 protected:
  Tensor score(const Tensor& query, const Tensor& key) const override {
    const Tensor angles = (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh();
    return scale_.defined() ? at::matmul(angles, scale_) : angles.sum(-1);
  }

 private:
  bool use_scale_;
  Tensor scale_;
};

}  // namespace

Attention::Attention(const AttentionOptions& options) : Layer(std::make_shared<AttentionImpl>(options), options) {}
AdditiveAttention::AdditiveAttention(const AdditiveAttentionOptions& options)
    : Layer(std::make_shared<AdditiveAttentionImpl>(options), options) {}

}  // namespace tutti::keras::layers
