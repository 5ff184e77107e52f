#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/structure.h"
#include "tutti/export/spec.h"
#include "tutti/export/value.h"

namespace tutti::saved_model {

struct SignatureOptions {
  std::vector<Spec> inputs = {};  // a TensorSpec or TextSpec for each tensor or text that the function takes
};

namespace signature_internal {

// The parameters and the result of a function or of a lambda.
template <class F>
struct Call : Call<decltype(&F::operator())> {};
template <class R, class... Parameters>
struct Call<R (*)(Parameters...)> {
  using Arguments = std::tuple<std::decay_t<Parameters>...>;
};
template <class R, class C, class... Parameters>
struct Call<R (C::*)(Parameters...) const> : Call<R (*)(Parameters...)> {};
template <class R, class C, class... Parameters>
struct Call<R (C::*)(Parameters...)> : Call<R (*)(Parameters...)> {};

// Puts values into the places of a structure's tensors and texts.
struct Fill {
  const std::vector<Spec>& specs;
  const std::vector<Value>& values;
  size_t next = 0;

  const Value& take() {
    if (next == values.size())
      throw Error(ErrorCode::invalid_argument,
                  "saved_model: a signature has fewer inputs than its function takes; give "
                  "a TensorSpec or TextSpec for each tensor or text");
    return values[next++];
  }
  void leaf(Tensor& tensor) { tensor = take().tensor(); }
  void leaf(Strings& text) { text = take().text(); }
  void leaf(Value& value) { value = take(); }
  // A map takes all inputs that are left, by their names.
  template <class V>
  void leaf(std::map<std::string, V>& map) {
    while (next < values.size()) {
      const std::string name = specs[next].name;
      structure_of(map[name]);
    }
  }
  template <class T>
  void structure_of(T& part) {
    structure::visit(part, *this);
  }
};

// Names what a structure holds: by the names in its maps, else "output_0" and so on.
struct Take {
  Outputs outputs = {};
  std::string name = {};

  void add(Value value) {
    const std::string own = name.empty() ? "output_" + std::to_string(outputs.size()) : name;
    if (!outputs.emplace(own, std::move(value)).second)
      throw Error(ErrorCode::invalid_argument, "saved_model: a signature returns two values named '" + own + "'");
  }
  void leaf(Tensor& tensor) { add(tensor); }
  void leaf(Strings& text) { add(text); }
  void leaf(Value& value) { add(value); }
  template <class V>
  void leaf(std::map<std::string, V>& map) {
    const std::string outer = name;
    for (auto& [key, part] : map) {
      name = outer;
      if (!name.empty()) name += '/';
      name += key;
      structure::visit(part, *this);
    }
    name = outer;
  }
};

}  // namespace signature_internal

// A function with a name for each input and output, to be saved. It takes and returns tensors, Strings, and structures
// of them; what a map holds is named by its keys, other results "output_0", "output_1". A function that takes one map
// gets all inputs by their names. It may refer to what it likes; what it uses is saved.
// TF: a tf.function among the `signatures` of tf.saved_model.save.
class Signature {
 public:
  template <class F>
  Signature(F f, SignatureOptions options) : inputs_(std::move(options.inputs)) {
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].name.empty()) inputs_[i].name = "input_" + std::to_string(i);
    call_ = [f = std::move(f), specs = inputs_](const std::vector<Value>& values) {
      typename signature_internal::Call<F>::Arguments arguments;
      signature_internal::Fill fill{specs, values};
      std::apply([&](auto&... parts) { (structure::visit(parts, fill), ...); }, arguments);
      if (fill.next != values.size())
        throw Error(ErrorCode::invalid_argument, "saved_model: a signature has more inputs than its function takes");
      auto result = std::apply(f, std::as_const(arguments));
      signature_internal::Take take;
      structure::visit(result, take);
      return std::move(take.outputs);
    };
  }

  const std::vector<Spec>& inputs() const { return inputs_; }
  Outputs call(const std::vector<Value>& inputs) const { return call_(inputs); }

 private:
  std::vector<Spec> inputs_;
  std::function<Outputs(const std::vector<Value>& inputs)> call_;
};

}  // namespace tutti::saved_model
