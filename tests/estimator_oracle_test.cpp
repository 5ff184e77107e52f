// What TensorFlow's Estimators did (tests/oracle/estimator.json), case by case.
#include <ATen/ops/allclose.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>

#include "tests/support/error_of.h"
#include "tests/support/oracle_cases.h"
#include "tests/support/recorded_columns.h"
#include "tests/support/recorded_estimators.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/log.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/estimator/export_versions.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/train_and_evaluate.h"

namespace tutti::estimator {
namespace {

using oracle::Json;

// Runs say nothing while it lives.
class Silence {
 public:
  Silence() : lines_(set_log_sink([](const std::string&) {})), warnings_(set_warning_sink([](const std::string&) {})) {}
  ~Silence() {
    set_log_sink(lines_);
    set_warning_sink(warnings_);
  }

 private:
  LogSink lines_;
  WarningSink warnings_;
};

double tolerance_of(const Json& test) {
  const std::string text = test.dump();
  for (const char* name : {"Adam", "RMSProp", "Ftrl", "batch_norm", "Adadelta", "\"estimator\":{\"class\":\"Base"})
    if (text.find(name) != std::string::npos) return 1e-4;
  return 1e-5;
}

// The failures of one case, by what was compared.
class Comparison {
 public:
  Comparison(const Json& test, double tolerance) : name_(test.at("name")), tolerance_(tolerance) {}

  void number(const std::string& what, double actual, const Json& recorded) {
    const double expected = recorded.is_number() ? recorded.get<double>() : std::nan("");
    const bool same = std::isnan(expected)
                          ? std::isnan(actual)
                          : std::abs(actual - expected) <= tolerance_ + tolerance_ * std::abs(expected);
    if (!same) fail(str(what, " is ", actual, ", recorded ", recorded.dump()));
  }
  void tensor(const std::string& what, const data::Column& actual, const Json& recorded) {
    if (recorded.at("dtype") == "string") {
      if (!actual.is_text() || !(actual.strings() == oracle::strings_of(recorded))) fail(what + " is other text");
      return;
    }
    const Tensor expected = oracle::tensor(recorded), value = actual.tensor().detach();
    if (value.sizes() != expected.sizes() ||
        !at::allclose(value.to(at::kDouble), expected.to(at::kDouble), tolerance_, tolerance_, /*equal_nan=*/true))
      fail(str(what, " is ", value, ", recorded ", expected));
  }
  void that(bool holds, const std::string& what) {
    if (!holds) fail(what);
  }
  bool holds() const { return holds_; }

 private:
  void fail(const std::string& what) {
    holds_ = false;
    std::cout << "  " << name_ << ": " << what << '\n';
  }

  std::string name_;
  double tolerance_;
  bool holds_ = true;
};

// Notes the loss of each step, and sets the first weights of the first training.
class Watch : public SessionRunHook {
 public:
  explicit Watch(Json initial) : initial_(std::move(initial)) {}
  std::vector<double> losses;

  void after_create_session(Session& session) override {
    for (const auto& [recorded, value] : initial_.items()) {
      const auto entry = dynamic_cast<ModelRun&>(session).store().find(own_name(recorded));
      if (!entry)
        throw std::runtime_error(str("no variable ", recorded, " among ", str_list(session.variable_names())));
      const c10::NoGradGuard no_grad;
      Tensor(entry->variable).copy_(oracle::tensor(value));
    }
    initial_ = Json();
  }
  void after_run(RunContext&, const RunValues& values) override { losses.push_back(values.loss.item<double>()); }

  // TensorFlow's name for the same: partitioned variables have parts, shared tables no place.
  static std::string own_name(std::string name) {
    if (name.ends_with("/part_0")) name.resize(name.size() - 7);
    if (name.ends_with("_shared_embedding"))
      return "dnn/input_from_feature_columns/input_layer/" + name + "/embedding_weights";
    return name;
  }

 private:
  Json initial_;
};

// One case's Estimator and the calls on it.
class Calls {
 public:
  // `alone`: the same in the same folder without strategies.
  Calls(const Estimator& estimator, const Json& test, Comparison& comparison, const Estimator* alone = nullptr)
      : estimator_(estimator),
        alone_(alone),
        test_(test),
        comparison_(comparison),
        initial_(test.contains("initial") && test["initial"].is_object() ? test["initial"] : Json()) {}

  void run() {
    for (size_t i = 0; i < test_["calls"].size(); ++i) {
      const Json &call = test_["calls"][i], &expected = test_["expected"][i];
      const std::string where = str("call ", i, " (", call["call"].get<std::string>(), "): ");
      try {
        answer(call, expected, where);
        comparison_.that(!expected.contains("error") || is_defect(), where + "was to fail");
      } catch (const Error& error) {
        comparison_.that(expected.contains("error") && !is_defect(), str(where, "fails: ", error.what()));
      }
    }
  }

 private:
  InputFn input(const Json& call) const {
    return oracle::input_fn_of(test_["inputs"][call["input"].get<std::string>()]);
  }
  static std::optional<int64_t> optional(const Json& call, const char* name) {
    return call.contains(name) && !call[name].is_null() ? std::optional(call[name].get<int64_t>()) : std::nullopt;
  }

  // A fault of TensorFlow's: here the calls succeed.
  bool is_defect() const { return test_.value("defect", false); }

  void answer(const Json& call, const Json& expected, const std::string& where) {
    const std::string kind = call["call"];
    if (kind == "train") return train(call, expected, where);
    if (kind == "evaluate") return evaluate(call, expected, where);
    if (kind == "predict") return predict(call, expected, where);
    if (kind == "latest_checkpoint") {
      const auto latest = estimator_.latest_checkpoint();
      comparison_.that(latest && "model." + latest->filename().string() == expected["latest_checkpoint"],
                       where + "is another one");
    } else if (kind == "files") {
      std::set<int64_t> steps;
      for (const auto& entry : std::filesystem::directory_iterator(estimator_.model_dir()))
        if (const std::string name = entry.path().filename(); name.starts_with("ckpt-"))
          steps.insert(std::stoll(name.substr(5)));
      comparison_.that(Json(steps) == expected["checkpoints"], where + Json(steps).dump());
    } else {
      variables(expected, where);
    }
  }

  void train(const Json& call, const Json& expected, const std::string& where) {
    const auto watch = std::make_shared<Watch>(std::exchange(initial_, Json()));
    estimator_.train(input(call),
                     {.hooks = {watch}, .steps = optional(call, "steps"), .max_steps = optional(call, "max_steps")});
    if (!expected.contains("losses") || is_defect()) return;
    const Json& losses = expected["losses"];
    comparison_.that(watch->losses.size() == losses.size(), str(where, watch->losses.size(), " steps"));
    for (size_t i = 0; i < std::min(losses.size(), watch->losses.size()); ++i)
      if (!test_.value("random", false)) comparison_.number(str(where, "loss ", i), watch->losses[i], losses[i]);
    comparison_.number(where + "global_step", estimator_.get_variable_value("global_step").item<double>(),
                       expected["global_step"]);
  }

  void evaluate(const Json& call, const Json& expected, const std::string& where) {
    const Metrics metrics =
        estimator_.evaluate(input(call), {.steps = optional(call, "steps"), .name = call.value("name", "")});
    if (!expected.contains("metrics") || is_defect()) return;
    if (expected.value("defect", false)) {  // TensorFlow leaves batches out; all count, as on one device
      for (const auto& [name, value] : alone_->evaluate(input(call)))
        comparison_.number(where + name, metrics.at(name), value);
      return;
    }
    comparison_.that(metrics.size() == expected["metrics"].size(), where + "other metrics");
    if (test_.value("random", false)) return;
    for (const auto& [name, value] : expected["metrics"].items())
      comparison_.number(where + name, metrics.contains(name) ? metrics.at(name) : -12345, value);
  }

  void predict(const Json& call, const Json& expected, const std::string& where) {
    PredictOptions options{.yield_single_examples = call.value("yield_single_examples", true)};
    if (call.contains("predict_keys") && call["predict_keys"].is_array())
      options.predict_keys = call["predict_keys"].get<std::vector<std::string>>();
    else if (call.contains("predict_keys"))
      options.predict_keys = {call["predict_keys"].get<std::string>()};
    std::vector<data::Columns> found;
    for (const data::Columns& prediction : estimator_.predict(input(call), options)) found.push_back(prediction);
    if (!expected.contains("predictions") || is_defect()) return;
    comparison_.that(found.size() == expected["predictions"].size(), str(where, found.size(), " predictions"));
    if (test_.value("random", false)) return;
    for (size_t i = 0; i < std::min(found.size(), expected["predictions"].size()); ++i) {
      comparison_.that(found[i].size() == expected["predictions"][i].size(), where + "other keys");
      for (const auto& [name, value] : expected["predictions"][i].items())
        comparison_.tensor(str(where, name, " of ", i), found[i].at(name), value);
    }
  }

  // Those of the model; slots of optimizers have names of Keras here, and most of them are compared by what they do.
  void variables(const Json& expected, const std::string& where) {
    const std::vector<std::string> names = estimator_.get_variable_names();
    if (!expected.contains("variables") || is_defect()) return;
    for (const auto& [recorded, value] : expected["variables"].items()) {
      const std::string name = Watch::own_name(recorded);
      if (std::ranges::find(names, name) != names.end())
        comparison_.tensor(where + name, estimator_.get_variable_value(name), value);
      else
        comparison_.that(is_slot(recorded), where + "lacks " + recorded);
    }
  }
  static bool is_slot(const std::string& name) {
    if (name.starts_with("training/") || name.ends_with("_power")) return true;
    for (const char* end : {"/Momentum", "/Adagrad", "/Adam", "/Adam_1", "/Ftrl", "/Ftrl_1", "/RMSProp", "/RMSProp_1",
                            "/RMSProp_2", "/Adadelta", "/Adadelta_1", "/ProximalAdagrad"})
      if (name.ends_with(end)) return true;
    return false;
  }

  const Estimator& estimator_;
  const Estimator* alone_;
  const Json& test_;
  Comparison& comparison_;
  Json initial_;
};

// A fresh folder for each case.
std::filesystem::path new_folder() {
  static int count = 0;
  return std::filesystem::temp_directory_path() / str("tutti_estimator_oracle_", getpid(), "_", count++);
}

RunConfig config_of(const Json& json, StrategyRef train, StrategyRef eval) {
  RunConfigOptions options{.save_summary_steps = 0, .train_distribute = train, .eval_distribute = eval};
  const auto optional = [](const Json& value) {
    return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>());
  };
  for (const auto& [name, value] : json.items())
    if (name == "save_checkpoints_steps")
      options.save_checkpoints_steps = optional(value);
    else if (name == "save_checkpoints_secs")
      options.save_checkpoints_secs = optional(value);
    else if (name == "keep_checkpoint_max")
      options.keep_checkpoint_max = optional(value);
    else if (name == "log_step_count_steps")
      options.log_step_count_steps = optional(value);
    else
      throw std::runtime_error("the argument " + name + " of RunConfig is not read yet");
  return RunConfig(options);
}

bool model_fn(const Json& test) {
  const auto strategy_of = [&](const char* member) {
    const int replicas = test.value(member, 0);
    return replicas == 0 ? nullptr
                         : std::make_unique<MirroredStrategy>(
                               MirroredStrategyOptions{.devices = configure_logical_cpus(replicas)});
  };
  const auto train = strategy_of("replicas"), eval = strategy_of("eval_replicas");
  Params params;
  if (test.contains("params") && test["params"].is_object())
    for (const auto& [name, value] : test["params"].items()) params[name] = value.get<double>();
  const auto folder = new_folder();
  const Estimator estimator(
      oracle::model_fn_of(test["model"]),
      {.model_dir = folder,
       .config = config_of(test.value("config", Json::object()), train ? StrategyRef(*train) : StrategyRef(),
                           eval ? StrategyRef(*eval) : StrategyRef()),
       .params = params});
  const Estimator alone(oracle::model_fn_of(test["model"]),
                        {.model_dir = folder, .config = config_of({}, {}, {}), .params = params});
  Comparison comparison(test, tolerance_of(test));
  Calls(estimator, test, comparison, &alone).run();
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

bool canned(const Json& test) {
  Comparison comparison(test, tolerance_of(test));
  const auto folder = new_folder();
  std::optional<Estimator> estimator;
  try {
    estimator.emplace(oracle::canned_estimator_of(test, folder));
  } catch (const Error&) {
    // What TensorFlow refuses at the first call is refused here where it is said.
    if (!test.contains("expected")) throw;
    return test["expected"][0].contains("error");
  }
  if (!test.contains("calls")) return true;
  Calls(*estimator, test, comparison).run();
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

bool head(const Json& test) {
  Comparison comparison(test, 1e-5);
  const Head head = oracle::head_of(test.at("head"));
  if (!test.contains("logits")) return true;
  const Tensor logits = oracle::tensor(test["logits"]);
  const Json& expected = test.at("expected");
  comparison.number("logits_dimension", static_cast<double>(head.logits_dimension()), expected["logits_dimension"]);
  try {
    const HeadLoss found = head.loss(oracle::input_of(test["features"]), oracle::input_of(test["labels"]), logits);
    comparison.that(!expected["evaluate"].contains("error"), "the labels were to be refused");
    if (expected["evaluate"].contains("error")) return false;
    comparison.number("loss", found.loss.item<double>(), expected["evaluate"]["loss"]);
    comparison.that(found.metrics.size() == expected["evaluate"]["metrics"].size(), "other metrics");
    for (const auto& [name, value] : expected["evaluate"]["metrics"].items()) {
      const auto metric = found.metrics.find(name);
      if (metric == found.metrics.end()) return comparison.that(false, "lacks " + name), false;
      keras::metrics::RunningMetric running(metric->second.metric);
      const auto& [of, y_true, y_pred, weight] = metric->second;
      const std::vector<keras::metrics::Share> shares{of.share(y_true, y_pred, weight)};
      running.add(shares);
      comparison.number(name, running.result().item<double>(), value);
    }
  } catch (const Error& error) {
    comparison.that(expected["evaluate"].contains("error"), error.what());
  }
  if (expected["predictions"].contains("error"))
    return comparison.that(code_of([&] { (void)head.predictions(logits); }).has_value(), "logits were to be refused"),
           comparison.holds();
  const data::Columns predictions = head.predictions(logits);
  for (const auto& [name, value] : expected["predictions"].items())
    comparison.tensor(name, predictions.at(name), value);
  return comparison.holds();
}

// Notes what is called, as "a.begin" and "listener.before_save 3".
using Events = std::vector<std::string>;

class NotingHook : public SessionRunHook {
 public:
  NotingHook(std::string name, Events& events, std::optional<int64_t> stop_after = {})
      : name_(std::move(name)), events_(events), stop_after_(stop_after) {}

  void begin() override { note("begin"); }
  void after_create_session(Session&) override { note("after_create_session"); }
  void before_run(RunContext&) override { note("before_run"); }
  void after_run(RunContext& context, const RunValues&) override {
    note("after_run");
    if (++steps_ == stop_after_) context.request_stop();
  }
  void end(Session&) override { note("end"); }

 private:
  void note(const char* what) { events_.push_back(name_ + '.' + what); }

  std::string name_;
  Events& events_;
  std::optional<int64_t> stop_after_;
  int64_t steps_ = 0;
};

class NotingListener : public CheckpointSaverListener {
 public:
  explicit NotingListener(Events& events) : events_(events) {}
  void begin() override { events_.push_back("listener.begin"); }
  void before_save(Session&, int64_t step) override { events_.push_back(str("listener.before_save ", step)); }
  bool after_save(Session&, int64_t step) override {
    events_.push_back(str("listener.after_save ", step));
    return false;
  }
  void end(Session&, int64_t step) override { events_.push_back(str("listener.end ", step)); }

 private:
  Events& events_;
};

std::optional<int64_t> optional_of(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_number() ? std::optional(json[name].get<int64_t>()) : std::nullopt;
}

// The numbers of the checkpoints that are there.
Json checkpoints_in(const std::filesystem::path& folder) {
  std::set<int64_t> steps;
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (const std::string name = entry.path().filename(); name.starts_with("ckpt-"))
        steps.insert(std::stoll(name.substr(5)));
  return Json(steps);
}

// A model for cases that are not about numbers.
const Json kAnyModel = Json::parse(R"({"layers": [{"units": 1,
    "kernel": {"shape": [1, 1], "dtype": "float32", "data": [0.5]},
    "bias": {"shape": [1], "dtype": "float32", "data": [0.0]}}],
    "loss": "mean_squared_error", "optimizer": {"name": "GradientDescent", "learning_rate": 0.01}})");

InputFn any_input(std::optional<int64_t> batches, bool has_labels = true) {
  const Json ones{{"shape", {1, 1}}, {"dtype", "float32"}, {"data", {1.0}}};
  return oracle::input_fn_of(
      {{"features", ones}, {"labels", has_labels ? ones : Json()}, {"batch", 1}, {"repeat", batches.value_or(0)}});
}

bool hooks(const Json& test) {
  const auto folder = new_folder();
  const Estimator estimator(oracle::model_fn_of(kAnyModel),
                            {.model_dir = folder, .config = config_of(test["config"], {}, {})});
  Comparison comparison(test, 0);
  const auto compare = [&](const char* what, const Events& events) {
    comparison.that(Json(events) == test["expected"][what], str(what, ": ", str_list(events)));
  };
  Events trained, evaluated, predicted;
  const auto a = std::make_shared<NotingHook>("a", trained, optional_of(test, "stop_after"));
  estimator.train(any_input(optional_of(test, "batches")),
                  {.hooks = {a, std::make_shared<NotingHook>("b", trained)},
                   .steps = test["steps"].get<int64_t>(),
                   .saving_listeners = {std::make_shared<NotingListener>(trained)}});
  compare("train", trained);
  estimator.evaluate(any_input(2), {.hooks = {std::make_shared<NotingHook>("a", evaluated),
                                              std::make_shared<NotingHook>("b", evaluated)}});
  compare("evaluate", evaluated);
  for (const auto& prediction :
       estimator.predict(any_input(2, false), {.hooks = {std::make_shared<NotingHook>("a", predicted)}}))
    (void)prediction;
  compare("predict", predicted);
  comparison.that(checkpoints_in(folder) == test["expected"]["checkpoints"], checkpoints_in(folder).dump());
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

bool checkpoints(const Json& test) {
  const auto folder = new_folder();
  const Estimator estimator(oracle::model_fn_of(kAnyModel),
                            {.model_dir = folder, .config = config_of(test["config"], {}, {})});
  Comparison comparison(test, 0);
  for (size_t i = 0; i < test["calls"].size(); ++i) {
    const Json &call = test["calls"][i], &expected = test["expected"][i];
    Events events;
    Listeners listeners;
    if (!expected["listener"].empty()) listeners.push_back(std::make_shared<NotingListener>(events));
    estimator.train(any_input({}), {.steps = optional_of(call, "steps"),
                                    .max_steps = optional_of(call, "max_steps"),
                                    .saving_listeners = listeners});
    comparison.that(checkpoints_in(folder) == expected["checkpoints"], checkpoints_in(folder).dump());
    comparison.that(Json(events) == expected["listener"], str_list(events));
    const auto latest = estimator.latest_checkpoint();
    comparison.that((latest ? Json("model." + latest->filename().string()) : Json()) == expected["latest"], "latest");
  }
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

// A line without what changes from run to run: numbers apart, in their order.
std::pair<std::string, std::vector<double>> parts_of_line(std::string line, const std::string& folder) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at; (at = line.find(from)) != std::string::npos;) line.replace(at, from.size(), to);
  };
  replace(folder, "{dir}");
  replace("/model.ckpt", "/ckpt");
  replace("/temp-{time}/saved_model.pb", "/{timestamp}/saved_model.json");
  line = std::regex_replace(line, std::regex(R"(\d{10,}(/saved_model.json))"), "{timestamp}$1");
  line = std::regex_replace(line, std::regex(R"(\d{4}-\d\d-\d\dT[\d:]+)"), "{time}");
  line = std::regex_replace(line, std::regex(R"((global_step/sec: |Time : |\()[\d.e+-]+( sec|s$|$))"), "$1{number}$2");
  std::vector<double> numbers;
  const std::regex decimal(R"(\d+\.\d+)");
  for (std::sregex_iterator found(line.begin(), line.end(), decimal), end; found != end; ++found)
    numbers.push_back(std::stod(found->str()));
  return {std::regex_replace(line, decimal, "#"), numbers};
}

void compare_lines(Comparison& comparison, const std::string& what, std::vector<std::string> lines,
                   const std::vector<std::string>& recorded, const std::string& folder) {
  comparison.that(lines.size() == recorded.size(), str(what, " logs ", lines.size(), " lines: ", str_list(lines)));
  for (size_t i = 0; i < std::min(lines.size(), recorded.size()); ++i) {
    const auto [text, numbers] = parts_of_line(lines[i], folder);
    const auto [expected, expected_numbers] = parts_of_line(recorded[i], folder);
    comparison.that(text == expected && numbers.size() == expected_numbers.size(),
                    str(what, ": \"", text, "\", recorded \"", expected, '"'));
    for (size_t n = 0; n < std::min(numbers.size(), expected_numbers.size()); ++n)
      comparison.number(str(what, ": ", lines[i]), numbers[n], expected_numbers[n]);
  }
}

bool log_lines(const Json& test) {
  const auto folder = new_folder();
  const Estimator estimator(oracle::model_fn_of(test["model"]),
                            {.model_dir = folder, .config = config_of(test["config"], {}, {})});
  Comparison comparison(test, 1e-5);
  std::vector<std::string> lines;
  const LogSink silent = set_log_sink([&](const std::string& line) { lines.push_back(line); });
  const auto compare = [&](const char* what) {
    std::vector<std::string> recorded;
    for (const Json& line : test["expected"][what]) recorded.push_back(line["text"]);
    compare_lines(comparison, what, std::exchange(lines, {}), recorded, folder.string());
  };
  estimator.train(oracle::input_fn_of(test["inputs"]["train"]), {.steps = test["steps"].get<int64_t>()});
  compare("train");
  estimator.evaluate(oracle::input_fn_of(test["inputs"]["eval"]));
  compare("evaluate");
  Json features = test["inputs"]["eval"];
  features["labels"] = Json();
  for (const auto& prediction : estimator.predict(oracle::input_fn_of(features))) (void)prediction;
  compare("predict");
  set_log_sink(silent);
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

// The variables of a session when it has begun.
class FirstValues : public SessionRunHook {
 public:
  std::map<std::string, Tensor> values;
  void after_create_session(Session& session) override {
    for (const std::string& name : session.variable_names()) values[name] = session.variable(name);
  }
};

bool warm_start(const Json& test) {
  const auto folder = new_folder();
  Comparison comparison(test, tolerance_of(test));
  Json first{{"name", test["name"]}, {"inputs", test["inputs"]}, {"initial", test["initial"]}};
  first["calls"] = Json::parse(R"([{"call": "train", "input": "train", "steps": 2}, {"call": "variables"}])");
  first["expected"] = test["expected"]["first"];
  Calls(oracle::canned_estimator_of(test, folder / "first"), first, comparison).run();

  WarmStartSettings settings{.ckpt_to_initialize_from = folder / "first"};
  if (test["vars_to_warm_start"].is_null())
    settings.vars_to_warm_start = {};
  else if (test["vars_to_warm_start"] != "folder")
    settings.vars_to_warm_start = {{test["vars_to_warm_start"].get<std::string>()}};
  const Estimator second = oracle::canned_estimator_of(test, folder / "second", settings);
  const auto begun = std::make_shared<FirstValues>();
  second.train(oracle::input_fn_of(test["inputs"]["train"]), {.hooks = {begun}, .steps = 1});
  for (const auto& [name, value] : test["expected"]["warm_started"].items())
    comparison.tensor("begins with " + name, begun->values[name], value);
  for (const auto& [name, value] : test["expected"]["variables"].items())
    if (begun->values.contains(name)) comparison.tensor(name, second.get_variable_value(name), value);
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

Json folders_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_directory() && !entry.path().filename().string().starts_with("ckpt-"))
      names.insert(entry.path().filename());
  return Json(names);
}

// What TensorFlow says of itself besides.
bool is_of_the_run(const Json& line) {
  const std::string text = line;
  return text != "Using config" && text != "Not using Distribute Coordinator." &&
         text != "Initializing RunConfig with distribution strategies." &&
         text.find("model_fn (<function") == std::string::npos && text != "Assets added to graph." &&
         text != "No assets to write.";
}

std::shared_ptr<Exporter> exporter_named(const std::string& name) {
  const auto receiver =
      build_raw_serving_input_receiver_fn(saved_model::TensorSpec{.name = "x", .shape = {kUnknown, 2}});
  if (name == "best")
    return std::make_shared<BestExporter>(BestExporterOptions{.name = name, .serving_input_receiver_fn = receiver});
  if (name == "latest") return std::make_shared<LatestExporter>(LatestExporterOptions{name, receiver});
  return std::make_shared<FinalExporter>(FinalExporterOptions{name, receiver});
}

void compare_exports(Comparison& comparison, const Json& expected, const Exports& exports,
                     const std::filesystem::path& folder) {
  Json found = Json::array();
  for (const auto& place : exports)
    found.push_back(place ? Json(place->parent_path().lexically_relative(folder).string() + "/{timestamp}") : Json());
  comparison.that(found == expected["exports"], found.dump());
  for (const auto& [name, count] : expected["export_folders"].items())
    comparison.that(export_versions(folder / "export" / name).size() == count, str("another number of exports ", name));
}

bool train_and_evaluate_case(const Json& test) {
  const auto folder = new_folder();
  Comparison comparison(test, 1e-5);
  std::unique_ptr<MirroredStrategy> strategy;
  if (test["replicas"] != 0)
    strategy = std::make_unique<MirroredStrategy>(
        MirroredStrategyOptions{.devices = configure_logical_cpus(test["replicas"].get<int>())});
  const StrategyRef ref = strategy ? StrategyRef(*strategy) : StrategyRef();
  Json config = test["config"];
  if (!config.contains("log_step_count_steps")) config["log_step_count_steps"] = 1;
  const Estimator estimator(oracle::model_fn_of(test["model"]),
                            {.model_dir = folder, .config = config_of(config, ref, ref)});
  Events events;
  EvalSpecOptions eval{.input_fn = oracle::input_fn_of(test["inputs"]["eval"]),
                       .name = test["eval_spec"].value("name", ""),
                       .hooks = {std::make_shared<NotingHook>("eval", events)},
                       .start_delay_secs = test["eval_spec"].value("start_delay_secs", 120.0),
                       .throttle_secs = test["eval_spec"].value("throttle_secs", 600.0)};
  if (test["eval_spec"].contains("steps")) eval.steps = optional_of(test["eval_spec"], "steps");
  for (const std::string name : test["exporters"]) eval.exporters.push_back(exporter_named(name));
  std::vector<std::string> lines;
  const LogSink silent = set_log_sink([&](const std::string& line) { lines.push_back(line); });
  const auto [metrics, exports] =
      train_and_evaluate(estimator,
                         TrainSpec({.input_fn = oracle::input_fn_of(test["inputs"]["train"]),
                                    .max_steps = optional_of(test["train_spec"], "max_steps"),
                                    .hooks = {std::make_shared<NotingHook>("train", events)},
                                    .saving_listeners = {std::make_shared<NotingListener>(events)}}),
                         EvalSpec(eval));
  set_log_sink(silent);
  const Json& expected = test["expected"];
  for (const auto& [name, value] : expected["result"].items())
    comparison.number(name, metrics.contains(name) ? metrics.at(name) : -12345, value);
  comparison.that(checkpoints_in(folder) == expected["checkpoints"], checkpoints_in(folder).dump());
  compare_exports(comparison, expected, exports, folder);
  comparison.that(folders_in(folder) == expected["folders"], folders_in(folder).dump());
  // Under strategies no hooks were recorded.
  comparison.that(expected["events"].empty() || Json(events) == expected["events"], str_list(events));
  std::vector<std::string> recorded;
  for (const Json& line : expected["log"])
    if (is_of_the_run(line)) recorded.push_back(line);
  recorded.erase(std::unique(recorded.begin(), recorded.end()), recorded.end());  // TensorFlow's come from each replica
  compare_lines(comparison, "log", lines, recorded, folder.string());
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

// One folder, trained further and further.
bool train_and_evaluate_again(const Json& test) {
  const auto folder = new_folder();
  Comparison comparison(test, 1e-5);
  for (const Json& expected : test["expected"]) {
    const Estimator estimator(oracle::model_fn_of(test["model"]),
                              {.model_dir = folder, .config = config_of(test["config"], {}, {})});
    const auto [metrics, exports] =
        train_and_evaluate(estimator,
                           TrainSpec({.input_fn = oracle::input_fn_of(test["inputs"]["train"]),
                                      .max_steps = expected["max_steps"].get<int64_t>()}),
                           EvalSpec({.input_fn = oracle::input_fn_of(test["inputs"]["eval"])}));
    comparison.that(metrics.empty() == expected["result"].is_null(), "whether it evaluates");
    for (const auto& [name, value] : expected["result"].items())
      comparison.number(name, metrics.contains(name) ? metrics.at(name) : -12345, value);
    comparison.that(checkpoints_in(folder) == expected["checkpoints"], checkpoints_in(folder).dump());
  }
  std::filesystem::remove_all(folder);
  return comparison.holds();
}

Json or_null(const auto& value) { return value ? Json(*value) : Json(); }
Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// The jobs as TensorFlow writes them: a list where all tasks are named.
Json jobs_of(const RunTask& task) {
  Json jobs = Json::object();
  for (const auto& [job, tasks] : task.cluster_spec) {
    const bool is_list = !tasks.empty() && tasks.rbegin()->first + 1 == static_cast<int64_t>(tasks.size());
    jobs[job] = is_list ? Json::array() : Json::object();
    for (const auto& [index, address] : tasks)
      if (is_list)
        jobs[job].push_back(address);
      else
        jobs[job][std::to_string(index)] = address;
  }
  return jobs;
}

void set_options(RunConfigOptions& options, const Json& arguments) {
  for (const auto& [name, value] : arguments.items()) {
    const auto integer = value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
    if (name == "model_dir")
      options.model_dir = value;
    else if (name == "tf_random_seed")
      options.tf_random_seed = value.get<uint64_t>();
    else if (name == "save_summary_steps")
      options.save_summary_steps = value;
    else if (name == "save_checkpoints_steps") {
      options.save_checkpoints_steps = integer;
      if (value.is_null()) options.save_checkpoints_secs = {};  // given, so that there is no default
    } else if (name == "save_checkpoints_secs")
      options.save_checkpoints_secs = value.is_null() ? std::nullopt : std::optional(value.get<double>());
    else if (name == "keep_checkpoint_max")
      options.keep_checkpoint_max = integer;
    else if (name == "keep_checkpoint_every_n_hours")
      options.keep_checkpoint_every_n_hours = value;
    else if (name == "log_step_count_steps")
      options.log_step_count_steps = integer;
    else
      throw std::runtime_error("the argument " + name + " of RunConfig is not read yet");
  }
}

bool run_config(const Json& test) {
  RunConfigOptions options;
  set_options(options, test.at("arguments"));
  cluster::Environment::Variables variables;
  if (!test["tf_config"].is_null()) variables["TF_CONFIG"] = test["tf_config"];
  RunConfig config(options, cluster::Environment(variables));
  if (test.contains("replace"))
    config = config.replace([&](RunConfigOptions& changed) { set_options(changed, test["replace"]); });
  if (!test.contains("expected")) return false;
  const RunTask& task = config.task();
  const Json found{{"model_dir", text_or_null(config->model_dir)},
                   {"tf_random_seed", or_null(config->tf_random_seed)},
                   {"save_summary_steps", config->save_summary_steps},
                   {"save_checkpoints_steps", or_null(config->save_checkpoints_steps)},
                   {"save_checkpoints_secs", or_null(config->save_checkpoints_secs)},
                   {"keep_checkpoint_max", or_null(config->keep_checkpoint_max)},
                   {"keep_checkpoint_every_n_hours", config->keep_checkpoint_every_n_hours},
                   {"log_step_count_steps", or_null(config->log_step_count_steps)},
                   {"service", task.service.empty() ? Json() : Json(task.service)},
                   {"task_type", task.task_type},
                   {"task_id", task.task_id},
                   {"global_id_in_cluster", or_null(task.global_id_in_cluster)},
                   {"is_chief", task.is_chief},
                   {"master", task.master},
                   {"evaluation_master", task.evaluation_master},
                   {"num_ps_replicas", task.num_ps_replicas},
                   {"num_worker_replicas", task.num_worker_replicas},
                   {"cluster_spec", jobs_of(task)}};
  Comparison comparison(test, 0);
  for (const auto& [name, value] : found.items())
    comparison.that(value == test["expected"].at(name),
                    str(name, " is ", value.dump(), ", recorded ", test["expected"].at(name).dump()));
  return comparison.holds();
}

bool run_kind(const Json& test) {
  const Silence silence;
  static const std::map<std::string, bool (*)(const Json&)> kinds{
      {"model_fn", model_fn},
      {"canned", canned},
      {"head", head},
      {"hooks", hooks},
      {"checkpoints", checkpoints},
      {"log", log_lines},
      {"run_config", run_config},
      {"warm_start", warm_start},
      {"train_and_evaluate", train_and_evaluate_case},
      {"train_and_evaluate_again", train_and_evaluate_again}};
  const auto kind = kinds.find(test.at("kind"));
  if (kind == kinds.end()) throw std::runtime_error("the kind " + test.at("kind").dump() + " is not run yet");
  try {
    return kind->second(test);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    std::cout << "  " << test.at("name") << ": " << error.what() << '\n';
    return false;
  }
}

TEST(EstimatorOracle, HoldsInEveryCase) {
  oracle::run_cases("estimator.json", [](const Json& test) { return run_kind(test); },
                    {"parse_spec", "early_stopping", "early_stopping_training", "train_and_evaluate_task",
                     "numpy_input_fn", "label_parse_spec", "export", "export_model_fn", "exporter", "loss_smaller",
                     "mistake", "train_spec", "eval_spec", "model_dir", "warm_start_settings"});
}

}  // namespace
}  // namespace tutti::estimator
