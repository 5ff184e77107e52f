#pragma once

#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "tutti/estimator/estimator_spec.h"
#include "tutti/estimator/input.h"
#include "tutti/estimator/run_config.h"

namespace tutti::estimator {

// What a program hands through an Estimator to its model function, by name.
using Params = std::map<std::string, std::variant<bool, int64_t, double, std::string>>;

// A function that describes a model: f(features, labels, mode, params, config), or one that takes the first of these,
// or of them without the labels, or config without params. Features and labels are Tensors, Strings, data::Columns, or
// Input, which is any of them. In prediction labels are undefined. TF: model_fn.
class ModelFn {
 public:
  template <class F>
  requires(!std::same_as<std::decay_t<F>, ModelFn>) ModelFn(F f)
      : takes_labels_(takes_labels<F>()),
        takes_params_(std::is_invocable_v<const F&, I, I, ModeKeys, P, C> ||
                      std::is_invocable_v<const F&, I, I, ModeKeys, P> ||
                      std::is_invocable_v<const F&, I, ModeKeys, P>),
        call_([f = std::move(f)](I features, I labels, ModeKeys mode, P params, C config) -> EstimatorSpec {
          return call(f, features, labels, mode, params, config);
        }) {}

  EstimatorSpec operator()(const Input& features, const Input& labels, ModeKeys mode, const Params& params,
                           const RunConfig& config) const {
    return call_(features, labels, mode, params, config);
  }
  bool takes_labels() const { return takes_labels_; }
  bool takes_params() const { return takes_params_; }

 private:
  using I = const Input&;
  using P = const Params&;
  using C = const RunConfig&;

  template <class F>
  static constexpr bool takes_labels() {
    return std::is_invocable_v<const F&, I, I, ModeKeys, P, C> || std::is_invocable_v<const F&, I, I, ModeKeys, C> ||
           std::is_invocable_v<const F&, I, I, ModeKeys, P> || std::is_invocable_v<const F&, I, I, ModeKeys> ||
           std::is_invocable_v<const F&, I, I>;
  }

  template <class F>
  static EstimatorSpec call(const F& f, I features, I labels, ModeKeys mode, P params, C config) {
    if constexpr (std::is_invocable_v<const F&, I, I, ModeKeys, P, C>) {
      return f(features, labels, mode, params, config);
    } else if constexpr (std::is_invocable_v<const F&, I, I, ModeKeys, P>) {
      return f(features, labels, mode, params);
    } else if constexpr (std::is_invocable_v<const F&, I, I, ModeKeys, C>) {
      return f(features, labels, mode, config);
    } else if constexpr (std::is_invocable_v<const F&, I, I, ModeKeys>) {
      return f(features, labels, mode);
    } else if constexpr (std::is_invocable_v<const F&, I, ModeKeys, P>) {
      return f(features, mode, params);
    } else if constexpr (std::is_invocable_v<const F&, I, ModeKeys>) {
      return f(features, mode);
    } else {
      static_assert(std::is_invocable_v<const F&, I, I>,
                    "a model function takes (features, labels, mode, params, config) or the first of them, and returns "
                    "an EstimatorSpec");
      return f(features, labels);
    }
  }

  bool takes_labels_, takes_params_;
  std::function<EstimatorSpec(I, I, ModeKeys, P, C)> call_;
};

}  // namespace tutti::estimator
