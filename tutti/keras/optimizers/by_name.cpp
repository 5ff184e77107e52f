#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/optimizers/adadelta.h"
#include "tutti/keras/optimizers/adafactor.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/adamax.h"
#include "tutti/keras/optimizers/adamw.h"
#include "tutti/keras/optimizers/ftrl.h"
#include "tutti/keras/optimizers/lamb.h"
#include "tutti/keras/optimizers/lion.h"
#include "tutti/keras/optimizers/muon.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/rmsprop.h"
#include "tutti/keras/optimizers/schedule_free_adamw.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::keras::optimizers {
namespace {

template <class T>
Optimizer with_defaults() {
  return T();
}

const std::map<std::string, std::function<Optimizer()>>& optimizers_by_name() {
  static const std::map<std::string, std::function<Optimizer()>> all{
      {"adadelta", with_defaults<Adadelta>},
      {"adafactor", with_defaults<Adafactor>},
      {"adagrad", with_defaults<Adagrad>},
      {"adam", with_defaults<Adam>},
      {"adamax", with_defaults<Adamax>},
      {"adamw", with_defaults<AdamW>},
      {"ftrl", with_defaults<Ftrl>},
      {"lamb", with_defaults<Lamb>},
      {"lion", with_defaults<Lion>},
      {"muon", with_defaults<Muon>},
      {"nadam", with_defaults<Nadam>},
      {"rmsprop", with_defaults<RMSprop>},
      {"schedulefreeadamw", with_defaults<ScheduleFreeAdamW>},
      {"sgd", with_defaults<SGD>}};
  return all;
}

Optimizer optimizer_of(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto& all = optimizers_by_name();
  if (const auto found = all.find(name); found != all.end()) return found->second();
  std::string names;
  for (const auto& [known, make] : all) names += str(names.empty() ? "" : ", ", known);
  throw Error(ErrorCode::invalid_argument, str("there is no optimizer \"", name, "\"; there are ", names));
}

}  // namespace

Optimizer::Optimizer(const char* name) : Optimizer(optimizer_of(name)) {}

}  // namespace tutti::keras::optimizers
