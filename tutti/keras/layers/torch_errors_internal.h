#pragma once

#include <c10/util/Exception.h>

#include <vector>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// Throws LibTorch's error as one of the layer that met it, with what the layer was given.
[[noreturn]] void refuse_as(const LayerImpl& layer, const c10::Error& error, const std::vector<Tensor>& inputs);

// f(), whose errors of LibTorch get the layer's name; that memory is exhausted stays as it is.
template <class F>
auto with_layers_name(const LayerImpl& layer, const std::vector<Tensor>& inputs, const F& f) {
  try {
    return f();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    refuse_as(layer, error, inputs);
  }
}

}  // namespace tutti::keras::layers
