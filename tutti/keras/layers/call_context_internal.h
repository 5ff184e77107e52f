#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// Where the samples of a replica are in the batch of all replicas.
struct ShardPlace {
  int64_t first_sample = 0;
  int64_t num_samples = 0;
};

struct CallKind {
  bool autocast = false;  // LibTorch casts for it
  bool trial = false;     // on made-up numbers, to see shapes: it leaves no trace
  std::optional<ShardPlace> shard = {};
};

// The call of a layer that this thread is in: what the layers that are called inside of it are told unless their caller
// says it. So neither the training flag nor a mask is lost in a call that hands no options on.
// Keras: the call context, and the mask that a tensor carries.
class CallContext {
 public:
  // The call of a layer on `inputs`, while this lives; both outlive it.
  CallContext(const std::vector<Tensor>& inputs, const CallOptions& options, const CallKind& kind = {});
  ~CallContext();
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  // Null outside of calls.
  static CallContext* current();

  bool autocast() const { return kind_.autocast; }
  // Whether the call, or one around it, is made for the shapes alone.
  static bool is_trial() { return current() && current()->kind_.trial; }

  // Nothing outside of a model's own steps.
  static std::optional<ShardPlace> shard() { return current() ? current()->kind_.shard : std::nullopt; }

  // The options of a layer that is called on `inputs`. Those given come first, but for masks that are this call's own,
  // handed on: they do not belong to a tensor that has a mask of its own, or none because its layer gave none.
  CallOptions options_for(const std::vector<Tensor>& inputs, const CallOptions* given) const;

  // Notes the mask of a layer's output; undefined: it has none.
  void remember(const Tensor& tensor, const Tensor& mask);

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  // Nothing: the tensor is no layer's output and no input.
  std::optional<Tensor> mask_of(const Tensor& tensor) const;

  const CallOptions& options_;
  CallContext* outer_;
  CallKind kind_;
  std::vector<std::pair<WeakTensor, Tensor>> masks_;  // the latest last; a tensor may be gone
};

}  // namespace tutti::keras::layers
