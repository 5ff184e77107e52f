#include "tutti/export/parse_example.h"

#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::saved_model {

using keras::layers::StepRecorder;

data::Columns parse_example(const Strings& examples, const data::ParseSpec& spec) {
  StepRecorder* const recorder = StepRecorder::current();
  if (!recorder) return data::parse_example(examples, spec);
  data::Columns columns;
  for (const auto& [key, feature] : spec) {
    const auto step = [&, &key = key, &feature = feature](bool lengths) {
      return recorder->step(keras::layers::ParseFeatureOptions{key, feature, lengths}, {examples});
    };
    const auto values = step(false);
    if (const auto* const text = std::get_if<Strings>(&values))
      columns.set(key, *text);
    else
      columns.set(key, std::get<Tensor>(values));
    const bool is_variable = std::visit(
        [](const auto& kind) {
          return !requires { kind.shape; };
        },
        feature);
    if (is_variable) columns.lengths[key] = std::get<Tensor>(step(true));
  }
  return columns;
}

}  // namespace tutti::saved_model
