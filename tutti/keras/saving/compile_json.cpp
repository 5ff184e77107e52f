#include "tutti/keras/saving/compile_json.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/keras/saving/compiled_classes.h"

namespace tutti::keras {

ClassAndConfig class_of(const std::string& json, const std::string& owner) {
  if (!json.starts_with('{')) return {};
  const auto members = json_members(json, owner);
  const auto class_name = members.find("class_name"), config = members.find("config");
  if (class_name == members.end() || config == members.end())
    throw Error(ErrorCode::data_loss, str(owner, ": an object has no class_name, or no config"));
  return {JsonReader(class_name->second, owner).text(), config->second};
}

std::string class_json(const char* module, const std::string& class_name, const LayerConfig& config) {
  return json_object({{"module", json_text(module)},
                      {"class_name", json_text(class_name)},
                      {"config", json_object(config.options())},
                      {"registered_name", "null"}});
}

namespace {

using losses::Loss;
using metrics::Metric;

// Of one, of each by its number, or by its name: then Keras wants all names, and of a single output it has another.
template <class T, class Json>
std::string json_per_output(const PerOutput<T>& all, const std::vector<std::string>& names, const std::string& absent,
                            const Json& json) {
  if (all.empty()) return "null";
  if (all.for_all()) return json(all.values()[0]);
  if (names.size() == 1 && all.by_name().size() == 1) return json(all.by_name().begin()->second);
  std::map<std::string, std::string> by_name;
  for (const std::string& name : names) by_name[name] = absent;
  for (const auto& [name, value] : all.by_name()) by_name[name] = json(value);
  if (!all.by_name().empty()) return json_object(by_name);
  std::vector<std::string> elements;
  for (const T& value : all.values()) elements.push_back(json(value));
  return json_array(elements);
}

std::string json_metrics(const OutputMetrics& all, const std::vector<std::string>& names, const std::string& owner) {
  const auto json = [&](const std::vector<Metric>& list) {
    std::vector<std::string> elements;
    for (const Metric& metric : list) elements.push_back(object_json(metric, metric_classes(), "keras.metrics", owner));
    return json_array(elements);
  };
  if (!all.only().empty()) return json(all.only());
  std::map<std::string, std::string> by_name;
  for (const auto& [name, list] : all.by_name()) by_name[name] = json(list);
  if (by_name.size() == 1 && names.size() == 1) return by_name.begin()->second;
  return by_name.empty() ? "null" : json_object(by_name);
}

// Keras takes no number for several outputs.
std::string json_weights(const PerOutput<double>& weights, const std::vector<std::string>& names) {
  if (weights.for_all()) return json_array(std::vector(names.size(), json_number(weights.values()[0])));
  return json_per_output(weights, names, "1.0", [](double weight) { return json_number(weight); });
}

class CompileReader {
 public:
  CompileReader(const std::vector<std::string>& output_names, std::string source)
      : output_names_(output_names), source_(std::move(source)) {}

  CompileOptions read(const std::string& json) const {
    std::map<std::string, std::string> members = json_members(json, source_);
    const auto take = [&](const char* name) {
      const auto found = members.extract(name);
      return found.empty() ? "null" : std::move(found.mapped());
    };
    CompileOptions options;
    if (const std::string optimizer = take("optimizer"); optimizer != "null")
      options.optimizer = object_of(optimizer, optimizer_classes(), owner("optimizer"));
    options.loss = per_output<Loss>(
        take("loss"), [this](const std::string& loss) { return object_of(loss, loss_classes(), owner("loss")); });
    options.loss_weights = per_output<double>(take("loss_weights"), [this](const std::string& weight) {
      return JsonReader(weight, owner("loss weight")).number();
    });
    options.metrics = metrics_of(take("metrics"));
    options.weighted_metrics = metrics_of(take("weighted_metrics"));
    if (const std::string steps = take("steps_per_execution"); steps != "null")
      options.steps_per_execution = JsonReader(steps, owner("steps_per_execution")).integer();
    // How each side runs its steps is its own.
    for (const char* const name : {"run_eagerly", "jit_compile", "auto_scale_loss"}) take(name);
    for (const auto& [name, value] : members)
      if (value != "null") unsupported(str("compile was told ", name, " = ", value));
    return options;
  }

 private:
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(ErrorCode::unimplemented,
                str(source_, ": ", what, ", which is not supported; {.compile = false} reads the model without it"));
  }
  std::string owner(const char* what) const { return str(source_, ": compile_config: the ", what); }

  // An array, which may have been a tuple; nothing for another value.
  std::optional<std::vector<std::string>> list_in(const std::string& json) const {
    if (json.starts_with('[')) return json_elements(json, source_);
    if (!json.starts_with('{')) return std::nullopt;
    const auto members = json_members(json, source_);
    const auto class_name = members.find("class_name"), items = members.find("items");
    if (class_name == members.end() || class_name->second != "\"__tuple__\"" || items == members.end())
      return std::nullopt;
    return json_elements(items->second, source_);
  }
  // An object with something for each output; nothing for one that is of a class.
  std::optional<std::map<std::string, std::string>> names_in(const std::string& json) const {
    if (!json.starts_with('{')) return std::nullopt;
    auto members = json_members(json, source_);
    const bool is_of_class = members.contains("class_name") && members.contains("config");
    return is_of_class ? std::nullopt : std::optional(std::move(members));
  }
  void require_outputs(size_t count, const char* what) const {
    if (count != output_names_.size())
      unsupported(str("compile was told ", count, ' ', what, " of ", output_names_.size(), " outputs"));
  }

  template <class T, class Read>
  PerOutput<T> per_output(const std::string& json, const Read& read) const {
    if (json == "null") return {};
    std::map<std::string, T> by_name;
    const auto add = [&](const std::string& name, const std::string& value) {
      if (value != "null") by_name.emplace(name, read(value));
    };
    if (const auto list = list_in(json)) {
      require_outputs(list->size(), "values");
      if (list->size() == 1) return read((*list)[0]);
      for (size_t i = 0; i < list->size(); ++i) add(output_names_[i], (*list)[i]);
    } else if (const auto names = names_in(json)) {
      if (names->size() == 1 && output_names_.size() == 1) return read(names->begin()->second);
      for (const auto& [name, value] : *names) add(name, value);
    } else {
      return read(json);
    }
    return PerOutput<T>::of_names(std::move(by_name));
  }

  // One, or a list of them.
  std::vector<Metric> some_metrics(const std::string& json) const {
    std::vector<Metric> all;
    if (json == "null") return all;
    const auto list = list_in(json);
    for (const std::string& one : list ? *list : std::vector<std::string>{json}) {
      if (list_in(one)) {
        std::ranges::move(some_metrics(one), std::back_inserter(all));
        continue;
      }
      all.push_back(object_of(one, metric_classes(), owner("metric")));
    }
    return all;
  }

  OutputMetrics metrics_of(const std::string& json) const {
    std::map<std::string, std::vector<Metric>> by_name;
    const auto names = names_in(json);
    if (names && !list_in(json)) {
      if (names->size() == 1 && output_names_.size() == 1) return some_metrics(names->begin()->second);
      for (const auto& [name, list] : *names) by_name[name] = some_metrics(list);
      return OutputMetrics::of_names(std::move(by_name));
    }
    if (output_names_.size() == 1 || json == "null") return some_metrics(json);
    const auto list = list_in(json);
    if (!list) unsupported("compile was told one metric of several outputs");
    if (list->empty()) return {};
    require_outputs(list->size(), "lists of metrics");
    for (size_t i = 0; i < list->size(); ++i) by_name[output_names_[i]] = some_metrics((*list)[i]);
    return OutputMetrics::of_names(std::move(by_name));
  }

  const std::vector<std::string>& output_names_;
  std::string source_;
};

}  // namespace

std::string compile_json(const CompileOptions& options, const std::vector<std::string>& output_names,
                         const std::string& source) {
  const std::string owner = str(source, ": what compile said");
  const auto json_loss = [&](const Loss& loss) { return object_json(loss, loss_classes(), "keras.losses", owner); };
  return json_object(
      {{"optimizer",
        options.optimizer ? object_json(*options.optimizer, optimizer_classes(), "keras.optimizers", owner) : "null"},
       {"loss", json_per_output(options.loss, output_names, "null", json_loss)},
       {"loss_weights", json_weights(options.loss_weights, output_names)},
       {"metrics", json_metrics(options.metrics, output_names, owner)},
       {"weighted_metrics", json_metrics(options.weighted_metrics, output_names, owner)},
       {"run_eagerly", "false"},
       {"steps_per_execution", str(options.steps_per_execution)},
       {"jit_compile", "false"}});
}

CompileOptions compile_options_of(const std::string& json, const std::vector<std::string>& output_names,
                                  const std::string& source) {
  return CompileReader(output_names, source).read(json);
}

}  // namespace tutti::keras
