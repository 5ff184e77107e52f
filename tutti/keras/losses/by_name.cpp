#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"
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
#include "tutti/keras/losses/shards.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"

namespace tutti::keras::losses {
namespace {

template <class T>
Loss loss_with_defaults() {
  return T();
}

// Chosen anew for each batch, by what it has.
Loss crossentropy_by_shape() {
  const auto function = [](const Loss& loss) {
    return [loss](const Tensor& y_true, const Tensor& y_pred) { return loss(y_true, y_pred); };
  };
  const auto binary = function(BinaryCrossentropy({.reduction = Reduction::none}));
  const auto sparse = function(SparseCategoricalCrossentropy({.reduction = Reduction::none}));
  const auto categorical = function(CategoricalCrossentropy({.reduction = Reduction::none}));
  return {"crossentropy", Reduction::sum_over_batch_size,
          Loss::Function([=](const Tensor& y_true, const Tensor& y_pred) {
            switch (label_kind(y_true, y_pred)) {
              case LabelKind::binary: return binary(y_true, y_pred);
              case LabelKind::sparse: return sparse(y_true, y_pred);
              case LabelKind::categorical: break;
            }
            return categorical(y_true, y_pred);
          })};
}

struct NamedLoss {
  std::vector<std::string> names;
  std::function<Loss()> make;
};

const std::vector<NamedLoss>& losses_by_name() {
  static const std::vector<NamedLoss> all{
      {{"crossentropy", "ce"}, crossentropy_by_shape},
      {{"BinaryCrossentropy", "binary_crossentropy", "bce", "BCE"}, loss_with_defaults<BinaryCrossentropy>},
      {{"BinaryFocalCrossentropy", "binary_focal_crossentropy"}, loss_with_defaults<BinaryFocalCrossentropy>},
      {{"CategoricalCrossentropy", "categorical_crossentropy"}, loss_with_defaults<CategoricalCrossentropy>},
      {{"CategoricalFocalCrossentropy", "categorical_focal_crossentropy"},
       loss_with_defaults<CategoricalFocalCrossentropy>},
      {{"CategoricalGeneralizedCrossEntropy", "categorical_generalized_cross_entropy"},
       loss_with_defaults<CategoricalGeneralizedCrossEntropy>},
      {{"CategoricalHinge", "categorical_hinge"}, loss_with_defaults<CategoricalHinge>},
      {{"Circle", "circle"}, loss_with_defaults<Circle>},
      {{"CosineSimilarity", "cosine_similarity"}, loss_with_defaults<CosineSimilarity>},
      {{"CTC", "ctc"}, loss_with_defaults<CTC>},
      {{"Dice", "dice"}, loss_with_defaults<Dice>},
      {{"Hinge", "hinge"}, loss_with_defaults<Hinge>},
      {{"Huber", "huber"}, loss_with_defaults<Huber>},
      {{"KLDivergence", "kl_divergence", "kld", "KLD"}, loss_with_defaults<KLDivergence>},
      {{"LogCosh", "log_cosh", "logcosh"}, loss_with_defaults<LogCosh>},
      {{"MeanAbsoluteError", "mean_absolute_error", "mae", "MAE"}, loss_with_defaults<MeanAbsoluteError>},
      {{"MeanAbsolutePercentageError", "mean_absolute_percentage_error", "mape", "MAPE"},
       loss_with_defaults<MeanAbsolutePercentageError>},
      {{"MeanSquaredError", "mean_squared_error", "mse", "MSE"}, loss_with_defaults<MeanSquaredError>},
      {{"MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", "msle", "MSLE"},
       loss_with_defaults<MeanSquaredLogarithmicError>},
      {{"Poisson", "poisson"}, loss_with_defaults<Poisson>},
      {{"SparseCategoricalCrossentropy", "sparse_categorical_crossentropy"},
       loss_with_defaults<SparseCategoricalCrossentropy>},
      {{"SquaredHinge", "squared_hinge"}, loss_with_defaults<SquaredHinge>},
      {{"Tversky", "tversky"}, loss_with_defaults<Tversky>}};
  return all;
}

Loss loss_of(const std::string& name) {
  std::string known;
  for (const NamedLoss& loss : losses_by_name()) {
    if (std::ranges::find(loss.names, name) != loss.names.end()) return loss.make();
    known += str(known.empty() ? "" : ", ", loss.names.back());
  }
  throw Error(ErrorCode::invalid_argument, str("there is no loss \"", name, "\"; there are ", known));
}

}  // namespace

Loss::Loss(const char* name) : Loss(loss_of(name)) {
  if (made_from_.class_name.empty()) tell_made_from({.class_name = name});
}

}  // namespace tutti::keras::losses
