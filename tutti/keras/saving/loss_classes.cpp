#include "tutti/core/str.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/categorical_generalized_cross_entropy.h"
#include "tutti/keras/losses/circle.h"
#include "tutti/keras/losses/cosine_similarity.h"
#include "tutti/keras/losses/ctc.h"
#include "tutti/keras/losses/dice.h"
#include "tutti/keras/losses/hinge.h"
#include "tutti/keras/losses/huber.h"
#include "tutti/keras/losses/kl_divergence.h"
#include "tutti/keras/losses/log_cosh.h"
#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_absolute_percentage_error.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/mean_squared_logarithmic_error.h"
#include "tutti/keras/losses/poisson.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/saving/compiled_classes.h"

namespace tutti::keras {
namespace {

// What all of them have.
template <class Options>
void list_reduction(LayerConfig& config, Options& options) {
  using enum Reduction;
  config.skip({"dtype"});
  config.option("reduction", options.reduction,
                {{"sum_over_batch_size", sum_over_batch_size},
                 {"mean", mean},
                 {"mean_with_sample_weight", mean_with_sample_weight},
                 {"sum", sum},
                 {"none", none}});
}

template <class Options>
void list_smoothed(LayerConfig& config, Options& options) {
  list_reduction(config, options);
  config.option("from_logits", options.from_logits);
  config.option("label_smoothing", options.label_smoothing);
  config.option("axis", options.axis);
}

void list_binary_focal(LayerConfig& config, losses::BinaryFocalCrossentropyOptions& options) {
  list_smoothed(config, options);
  config.option("apply_class_balancing", options.apply_class_balancing);
  config.option("alpha", options.alpha);
  config.option("gamma", options.gamma);
}

void list_categorical_focal(LayerConfig& config, losses::CategoricalFocalCrossentropyOptions& options) {
  list_smoothed(config, options);
  config.option("alpha", options.alpha);
  config.option("gamma", options.gamma);
}

void list_sparse(LayerConfig& config, losses::SparseCategoricalCrossentropyOptions& options) {
  list_reduction(config, options);
  config.require({{"axis", "-1"}});
  config.option("from_logits", options.from_logits);
  config.option("ignore_class", options.ignore_class);
}

void list_generalized(LayerConfig& config, losses::CategoricalGeneralizedCrossEntropyOptions& options) {
  list_reduction(config, options);
  config.option("q", options.q);
}

void list_circle(LayerConfig& config, losses::CircleOptions& options) {
  list_reduction(config, options);
  config.option("gamma", options.gamma);
  config.option("margin", options.margin);
  config.option("remove_diagonal", options.remove_diagonal);
}

// Keras's own files lack what the next two say: it reads them, and does not write them.
void list_cosine(LayerConfig& config, losses::CosineSimilarityOptions& options) {
  list_reduction(config, options);
  config.option("axis", options.axis);
}

void list_huber(LayerConfig& config, losses::HuberOptions& options) {
  list_reduction(config, options);
  config.option("delta", options.delta);
}

// No axis is all of them.
void list_axis(LayerConfig& config, std::vector<int64_t>& axis) {
  if (config.is_written() ? !axis.empty() : config.has("axis")) config.axes("axis", axis);
}

void list_dice(LayerConfig& config, losses::DiceOptions& options) {
  list_reduction(config, options);
  list_axis(config, options.axis);
}

// Whatever Keras says of alpha and beta, it weighs by alpha what is there and is not predicted.
void list_tversky(LayerConfig& config, losses::TverskyOptions& options) {
  list_reduction(config, options);
  config.option("alpha", options.beta);
  config.option("beta", options.alpha);
  list_axis(config, options.axis);
}

template <class Class, class Options, void (*list)(LayerConfig&, Options&) = list_reduction<Options>>
CompiledClass<losses::Loss> loss() {
  return compiled_class<losses::Loss, Class, Options, list>();
}

}  // namespace

const CompiledClasses<losses::Loss>& loss_classes() {
  using namespace losses;
  static const CompiledClasses<Loss> classes{
      {"BinaryCrossentropy",
       loss<BinaryCrossentropy, BinaryCrossentropyOptions, list_smoothed<BinaryCrossentropyOptions>>()},
      {"BinaryFocalCrossentropy", loss<BinaryFocalCrossentropy, BinaryFocalCrossentropyOptions, list_binary_focal>()},
      {"CategoricalCrossentropy",
       loss<CategoricalCrossentropy, CategoricalCrossentropyOptions, list_smoothed<CategoricalCrossentropyOptions>>()},
      {"CategoricalFocalCrossentropy",
       loss<CategoricalFocalCrossentropy, CategoricalFocalCrossentropyOptions, list_categorical_focal>()},
      {"CategoricalGeneralizedCrossEntropy",
       loss<CategoricalGeneralizedCrossEntropy, CategoricalGeneralizedCrossEntropyOptions, list_generalized>()},
      {"CategoricalHinge", loss<CategoricalHinge, CategoricalHingeOptions>()},
      {"Circle", loss<Circle, CircleOptions, list_circle>()},
      {"CosineSimilarity", loss<CosineSimilarity, CosineSimilarityOptions, list_cosine>()},
      {"CTC", loss<CTC, CTCOptions>()},
      {"Dice", loss<Dice, DiceOptions, list_dice>()},
      {"Hinge", loss<Hinge, HingeOptions>()},
      {"Huber", loss<Huber, HuberOptions, list_huber>()},
      {"KLDivergence", loss<KLDivergence, KLDivergenceOptions>()},
      {"LogCosh", loss<LogCosh, LogCoshOptions>()},
      {"MeanAbsoluteError", loss<MeanAbsoluteError, MeanAbsoluteErrorOptions>()},
      {"MeanAbsolutePercentageError", loss<MeanAbsolutePercentageError, MeanAbsolutePercentageErrorOptions>()},
      {"MeanSquaredError", loss<MeanSquaredError, MeanSquaredErrorOptions>()},
      {"MeanSquaredLogarithmicError", loss<MeanSquaredLogarithmicError, MeanSquaredLogarithmicErrorOptions>()},
      {"Poisson", loss<Poisson, PoissonOptions>()},
      {"SparseCategoricalCrossentropy",
       loss<SparseCategoricalCrossentropy, SparseCategoricalCrossentropyOptions, list_sparse>()},
      {"SquaredHinge", loss<SquaredHinge, SquaredHingeOptions>()},
      {"Tversky", loss<Tversky, TverskyOptions, list_tversky>()},
  };
  return classes;
}

}  // namespace tutti::keras
