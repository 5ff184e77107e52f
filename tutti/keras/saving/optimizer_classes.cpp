#include <any>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/json.h"
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
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/muon.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/rmsprop.h"
#include "tutti/keras/optimizers/schedule_free_adamw.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/saving/compiled_classes.h"

namespace tutti::keras {
namespace {

using optimizers::LearningRate;
using optimizers::Optimizer;
namespace schedules = optimizers::schedules;

// --- Learning rates: a number, or a schedule of one of Keras's classes.

// Of ExponentialDecay and InverseTimeDecay; the others have lists of their own.
template <class Options>
void list_schedule(LayerConfig& config, Options& options) {
  config.option("initial_learning_rate", options.initial_learning_rate);
  config.option("decay_steps", options.decay_steps);
  config.option("decay_rate", options.decay_rate);
  config.option("staircase", options.staircase);
}

void list_schedule(LayerConfig& config, schedules::PiecewiseConstantDecayOptions& options) {
  config.numbers("boundaries", options.boundaries);
  config.numbers("values", options.values);
}

void list_schedule(LayerConfig& config, schedules::PolynomialDecayOptions& options) {
  config.option("initial_learning_rate", options.initial_learning_rate);
  config.option("decay_steps", options.decay_steps);
  config.option("end_learning_rate", options.end_learning_rate);
  config.option("power", options.power);
  config.option("cycle", options.cycle);
}

void list_schedule(LayerConfig& config, schedules::CosineDecayOptions& options) {
  config.option("initial_learning_rate", options.initial_learning_rate);
  config.option("decay_steps", options.decay_steps);
  config.option("alpha", options.alpha);
  config.option("warmup_target", options.warmup_target);
  config.option("warmup_steps", options.warmup_steps);
}

void list_schedule(LayerConfig& config, schedules::CosineDecayRestartsOptions& options) {
  config.option("initial_learning_rate", options.initial_learning_rate);
  config.option("first_decay_steps", options.first_decay_steps);
  config.option("t_mul", options.t_mul);
  config.option("m_mul", options.m_mul);
  config.option("alpha", options.alpha);
}

struct ScheduleClass {
  const char* name;
  LearningRate (*make)(LayerConfig& config);
  bool (*write)(const LearningRate& rate, LayerConfig& config);  // false for one of another class
};

template <class Schedule, class Options>
ScheduleClass schedule_class(const char* name) {
  return {.name = name,
          .make = [](LayerConfig& config) -> LearningRate {
            Options options{};
            list_schedule(config, options);
            return Schedule(options);
          },
          .write =
              [](const LearningRate& rate, LayerConfig& config) {
                const auto* const schedule = rate.schedule<Schedule>();
                if (!schedule) return false;
                Options options = schedule->options();
                list_schedule(config, options);
                return true;
              }};
}

const std::vector<ScheduleClass>& schedule_classes() {
  using namespace schedules;
  static const std::vector<ScheduleClass> classes{
      schedule_class<CosineDecay, CosineDecayOptions>("CosineDecay"),
      schedule_class<CosineDecayRestarts, CosineDecayRestartsOptions>("CosineDecayRestarts"),
      schedule_class<ExponentialDecay, ExponentialDecayOptions>("ExponentialDecay"),
      schedule_class<InverseTimeDecay, InverseTimeDecayOptions>("InverseTimeDecay"),
      schedule_class<PiecewiseConstantDecay, PiecewiseConstantDecayOptions>("PiecewiseConstantDecay"),
      schedule_class<PolynomialDecay, PolynomialDecayOptions>("PolynomialDecay"),
  };
  return classes;
}

std::string schedule_json(const LearningRate& rate, const LayerConfig& config) {
  for (const ScheduleClass& one : schedule_classes()) {
    LayerConfig inner(str(config.layer(), ": its learning_rate"));
    if (!one.write(rate, inner)) continue;
    inner.put("name", json_text(one.name));
    return class_json("keras.optimizers.schedules", one.name, inner);
  }
  config.refuse("has a learning rate that is a function of this program, which Python lacks; take one of schedules");
}

LearningRate schedule_of(const std::string& json, const LayerConfig& config) {
  const std::string owner = str(config.layer(), ": its learning_rate");
  const auto [class_name, inner_json] = class_of(json, owner);
  for (const ScheduleClass& one : schedule_classes()) {
    if (class_name != one.name) continue;
    LayerConfig inner(inner_json, owner);
    inner.keep_defaults();
    inner.skip({"name"});
    LearningRate rate = one.make(inner);
    inner.finish();
    return rate;
  }
  config.refuse(str("has the schedule ", class_name, ", which is not supported"));
}

void list_rate(LayerConfig& config, LearningRate& rate) {
  if (config.is_written())
    return config.put("learning_rate", rate.number() ? json_number(*rate.number()) : schedule_json(rate, config));
  if (!config.says("learning_rate")) return;
  const std::string json = config.json("learning_rate");
  rate = json.starts_with('{') ? schedule_of(json, config) : LearningRate(config.number("learning_rate"));
}

// --- Optimizers.

// What all of them have but the rate.
template <class Options>
void list_common(LayerConfig& config, Options& options) {
  list_rate(config, options.learning_rate);
  config.option("weight_decay", options.weight_decay);
  config.option("clipnorm", options.clipnorm);
  config.option("global_clipnorm", options.global_clipnorm);
  config.option("clipvalue", options.clipvalue);
  config.option("use_ema", options.use_ema);
  config.option("ema_momentum", options.ema_momentum);
  config.option("ema_overwrite_frequency", options.ema_overwrite_frequency);
  config.option("loss_scale_factor", options.loss_scale_factor);
  config.option("gradient_accumulation_steps", options.gradient_accumulation_steps);
}

template <class Options>
void list_betas(LayerConfig& config, Options& options) {
  list_common(config, options);
  config.option("beta_1", options.beta_1);
  config.option("beta_2", options.beta_2);
}

template <class Options>
void list_betas_and_epsilon(LayerConfig& config, Options& options) {
  list_betas(config, options);
  config.option("epsilon", options.epsilon);
}

template <class Options>
void list_adam(LayerConfig& config, Options& options) {
  list_betas_and_epsilon(config, options);
  config.option("amsgrad", options.amsgrad);
}

void list_options(LayerConfig& config, optimizers::AdadeltaOptions& options) {
  list_common(config, options);
  config.option("rho", options.rho);
  config.option("epsilon", options.epsilon);
}

void list_options(LayerConfig& config, optimizers::AdafactorOptions& options) {
  list_common(config, options);
  config.require({{"relative_step", "true"}});
  config.option("beta_2_decay", options.beta_2_decay);
  config.option("epsilon_1", options.epsilon_1);
  config.option("epsilon_2", options.epsilon_2);
  config.option("clip_threshold", options.clip_threshold);
}

void list_options(LayerConfig& config, optimizers::AdagradOptions& options) {
  list_common(config, options);
  config.option("initial_accumulator_value", options.initial_accumulator_value);
  config.option("epsilon", options.epsilon);
}

void list_options(LayerConfig& config, optimizers::FtrlOptions& options) {
  list_common(config, options);
  config.option("learning_rate_power", options.learning_rate_power);
  config.option("initial_accumulator_value", options.initial_accumulator_value);
  config.option("l1_regularization_strength", options.l1_regularization_strength);
  config.option("l2_regularization_strength", options.l2_regularization_strength);
  config.option("l2_shrinkage_regularization_strength", options.l2_shrinkage_regularization_strength);
  config.option("beta", options.beta);
}

// Null where it is empty.
void list_texts(LayerConfig& config, const char* name, std::vector<std::string>& texts) {
  std::vector<std::string> elements;
  if (config.is_written()) {
    for (const std::string& text : texts) elements.push_back(json_text(text));
    return config.put(name, json_array(elements));
  }
  if (!config.has(name)) return;
  texts.clear();
  for (const std::string& element : config.list(name)) texts.push_back(JsonReader(element, config.layer()).text());
}

void list_options(LayerConfig& config, optimizers::MuonOptions& options) {
  list_common(config, options);
  config.option("adam_beta_1", options.adam_beta_1);
  config.option("adam_beta_2", options.adam_beta_2);
  config.option("adam_weight_decay", options.adam_weight_decay);
  config.option("epsilon", options.epsilon);
  list_texts(config, "exclude_layers", options.exclude_layers);
  config.option("exclude_embeddings", options.exclude_embeddings);
  config.option("muon_a", options.muon_a);
  config.option("muon_b", options.muon_b);
  config.option("muon_c", options.muon_c);
  config.option("adam_lr_ratio", options.adam_lr_ratio);
  config.option("momentum", options.momentum);
  config.option("ns_steps", options.ns_steps);
  config.option("nesterov", options.nesterov);
  config.option("rms_rate", options.rms_rate);
}

// `initial_velocity` is in the state, which is in the file.
void list_options(LayerConfig& config, optimizers::RMSpropOptions& options) {
  list_common(config, options);
  config.option("rho", options.rho);
  config.option("momentum", options.momentum);
  config.option("epsilon", options.epsilon);
  config.option("centered", options.centered);
}

void list_options(LayerConfig& config, optimizers::ScheduleFreeAdamWOptions& options) {
  list_betas_and_epsilon(config, options);
  config.option("warmup_steps", options.warmup_steps);
}

void list_options(LayerConfig& config, optimizers::SGDOptions& options) {
  list_common(config, options);
  config.option("momentum", options.momentum);
  config.option("nesterov", options.nesterov);
}

// The learning rate is the one that stands now.
template <class Class, class Options, void (*list)(LayerConfig&, Options&) = list_options>
CompiledClass<Optimizer> optimizer() {
  return {.make = compiled_class<Optimizer, Class, Options, list>().make,
          .write = [](const Optimizer& object, LayerConfig& config) {
            auto options = std::any_cast<Options>(made_from(object).options);
            options.learning_rate = object.impl()->rate();
            options.name = object.name();
            config.option("name", options.name);
            list(config, options);
          }};
}

constexpr const char* kModule = "keras.optimizers";

void list_scale(LayerConfig& config, optimizers::LossScaleOptimizerOptions& options) {
  config.option("name", options.name);
  config.option("initial_scale", options.initial_scale);
  config.option("dynamic_growth_steps", options.dynamic_growth_steps);
}

CompiledClass<Optimizer> loss_scale_optimizer() {
  return {.make = [](LayerConfig& config) -> Optimizer {
            optimizers::LossScaleOptimizerOptions options;
            list_scale(config, options);
            return optimizers::LossScaleOptimizer(
                object_of(config.json("inner_optimizer"), optimizer_classes(), config.layer()), options);
          },
          .write =
              [](const Optimizer& object, LayerConfig& config) {
                auto [inner, options] = std::any_cast<std::pair<Optimizer, optimizers::LossScaleOptimizerOptions>>(
                    made_from(object).options);
                list_scale(config, options);
                config.put("inner_optimizer", object_json(inner, optimizer_classes(), kModule, config.layer()));
              }};
}

}  // namespace

const CompiledClasses<Optimizer>& optimizer_classes() {
  using namespace optimizers;
  static const CompiledClasses<Optimizer> classes{
      {"Adadelta", optimizer<Adadelta, AdadeltaOptions>()},
      {"Adafactor", optimizer<Adafactor, AdafactorOptions>()},
      {"Adagrad", optimizer<Adagrad, AdagradOptions>()},
      {"Adam", optimizer<Adam, AdamOptions, list_adam<AdamOptions>>()},
      {"AdamW", optimizer<AdamW, AdamWOptions, list_adam<AdamWOptions>>()},
      {"Adamax", optimizer<Adamax, AdamaxOptions, list_betas_and_epsilon<AdamaxOptions>>()},
      {"Ftrl", optimizer<Ftrl, FtrlOptions>()},
      {"Lamb", optimizer<Lamb, LambOptions, list_betas_and_epsilon<LambOptions>>()},
      {"Lion", optimizer<Lion, LionOptions, list_betas<LionOptions>>()},
      {"LossScaleOptimizer", loss_scale_optimizer()},
      {"Muon", optimizer<Muon, MuonOptions>()},
      {"Nadam", optimizer<Nadam, NadamOptions, list_betas_and_epsilon<NadamOptions>>()},
      {"RMSprop", optimizer<RMSprop, RMSpropOptions>()},
      {"SGD", optimizer<SGD, SGDOptions>()},
      {"ScheduleFreeAdamW", optimizer<ScheduleFreeAdamW, ScheduleFreeAdamWOptions>()},
  };
  return classes;
}

}  // namespace tutti::keras
