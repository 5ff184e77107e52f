#include "tutti/keras/saving/optimizer_variables.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <any>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/nadam_internal.h"
#include "tutti/keras/saving/compiled_classes.h"
#include "tutti/tensor/savable.h"

namespace tutti::keras {
namespace {

using optimizers::Optimizer;

// Notes what an optimizer would save.
class StateNotes final : public StateVisitor {
 public:
  explicit StateNotes(const Optimizer& optimizer) { optimizer.impl()->visit_state(*this); }

  const Tensor* tensor_of(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::optional<double> number_of(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  bool restoring() const override { return false; }
  bool has(const std::string&, bool now) override { return now; }
  void tensor(const std::string& name, const Tensor& value) override { tensors_[prefix_ + name] = value; }
  void number(const std::string& name, int64_t& value) override {
    numbers_[prefix_ + name] = static_cast<double>(value);
  }
  void number(const std::string& name, double& value) override { numbers_[prefix_ + name] = value; }
  void opaque(const std::string&, const std::function<Tensor()>&, const std::function<void(const Tensor&)>&) override {}
  void object(const std::string& name, Savable& part) override {
    const std::string before = std::exchange(prefix_, str(prefix_, name, '/'));
    part.visit_state(*this);
    prefix_ = before;
  }

 private:
  std::string prefix_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, double> numbers_;
};

// Gives an optimizer numbers, and leaves its tensors.
class NumberSetter final : public StateVisitor {
 public:
  explicit NumberSetter(const std::map<std::string, double>& numbers) : numbers_(numbers) {}

  bool restoring() const override { return true; }
  bool has(const std::string&, bool) override { return false; }
  void tensor(const std::string&, const Tensor&) override {}
  void number(const std::string& name, int64_t& value) override {
    if (const auto found = numbers_.find(name); found != numbers_.end()) value = static_cast<int64_t>(found->second);
  }
  void number(const std::string& name, double& value) override {
    if (const auto found = numbers_.find(name); found != numbers_.end()) value = found->second;
  }
  void opaque(const std::string&, const std::function<Tensor()>&, const std::function<void(const Tensor&)>&) override {}
  void object(const std::string&, Savable&) override {}

 private:
  const std::map<std::string, double>& numbers_;
};

// The one that a LossScaleOptimizer is around; else nothing.
std::optional<Optimizer> inner_of(const Optimizer& optimizer) {
  const auto* const pair =
      std::any_cast<std::pair<Optimizer, optimizers::LossScaleOptimizerOptions>>(&made_from(optimizer).options);
  return pair ? std::optional(pair->first) : std::nullopt;
}

// How many of a variable's slots Keras has behind each other; others follow for all variables together.
size_t num_together(const std::string& class_name) {
  if (class_name == "Adam" || class_name == "AdamW") return 2;  // the largest second moments are apart
  return class_name == "RMSprop" ? 1 : 3;
}

Tensor number(double value, at::ScalarType dtype) { return at::scalar_tensor(value, at::TensorOptions(dtype)); }

// The second moment that Keras's Adafactor makes of its means over rows and columns, and keeps. 0 before any update.
Tensor factored_moment(const Tensor& rows, const Tensor& columns) {
  const Tensor moment = (rows / rows.mean(-1, /*keepdim=*/true)).unsqueeze(-1) * columns.unsqueeze(-2);
  return at::nan_to_num(moment, 0.0);
}

// Of Adafactor's variables that have neither rows nor columns: two that say nothing.
constexpr const char* kPlaceholder = "placeholder";

// Lists one optimizer's variables under a path.
class Lister {
 public:
  Lister(const Optimizer& optimizer, const std::vector<Tensor>& variables, std::string group)
      : optimizer_(optimizer),
        class_name_(made_from(optimizer).class_name),
        notes_(optimizer),
        group_(std::move(group)),
        places_(places_of(optimizer, variables)) {}

  std::vector<OptimizerVariable> list(int64_t first = 0) {
    next_ = first;
    add("iterations", number(*notes_.number_of("iterations"), at::kInt));
    if (const auto rate = notes_.number_of("learning_rate")) add("learning_rate", number(*rate, at::kFloat));
    add_of_all("average");
    add_of_all("gradient_accumulator");
    const size_t together = num_together(class_name_);
    for (const size_t place : places_) add_slots(place, together);
    for (size_t slot = together; slot < 3; ++slot) add_of_all(str("slot_", slot));
    if (class_name_ == "Nadam") add_product();
    return std::move(found_);
  }

 private:
  // Where the optimizer has the state of each of them.
  static std::vector<size_t> places_of(const Optimizer& optimizer, const std::vector<Tensor>& variables) {
    std::map<const at::TensorImpl*, size_t> all;
    const std::vector<Tensor> own = optimizer.impl()->variables();
    for (size_t i = 0; i < own.size(); ++i) all[own[i].unsafeGetTensorImpl()] = i;
    std::vector<size_t> places;
    for (const Tensor& variable : variables)
      if (const auto found = all.find(variable.unsafeGetTensorImpl()); found != all.end())
        places.push_back(found->second);
    if (places.size() != variables.size() || own.size() != variables.size())
      throw Error(ErrorCode::failed_precondition, str(optimizer.name(), ": the optimizer was built with ", own.size(),
                                                      " variables, of which the model ", "trains ", places.size(),
                                                      " of ", variables.size(), "; compile the model anew"));
    return places;
  }

  void add(const std::string& name, Tensor value, bool is_state = false) {
    found_.push_back({.path = str(group_, '/', next_++),
                      .name = str(optimizer_.name(), '/', name),
                      .value = std::move(value),
                      .is_state = is_state});
  }
  bool add_if_there(size_t place, const std::string& what) {
    const std::string name = str(place, '/', what);
    const Tensor* const value = notes_.tensor_of(name);
    if (value) add(name, *value, /*is_state=*/true);
    return value != nullptr;
  }
  void add_of_all(const std::string& what) {
    for (const size_t place : places_) add_if_there(place, what);
  }
  void add_slots(size_t place, size_t count) {
    const Tensor* const columns = notes_.tensor_of(str(place, "/slot_1"));
    const bool is_adafactor = class_name_ == "Adafactor";
    for (int i = 0; is_adafactor && !columns && i < 2; ++i) add(kPlaceholder, number(0, at::kInt));
    for (size_t slot = 0; slot < count; ++slot) add_if_there(place, str("slot_", slot));
    if (is_adafactor && columns)
      add(str(place, "/moment"), factored_moment(*notes_.tensor_of(str(place, "/slot_0")), *columns));
  }
  void add_product() {
    const double beta_1 = std::any_cast<const optimizers::NadamOptions&>(made_from(optimizer_).options).beta_1;
    add("momentum_product", number(optimizers::product_of_momentum(beta_1, optimizer_.iterations()), at::kFloat));
  }

  const Optimizer& optimizer_;
  std::string class_name_;
  StateNotes notes_;
  std::string group_;
  std::vector<size_t> places_;
  int64_t next_ = 0;
  std::vector<OptimizerVariable> found_;
};

constexpr const char* kGroup = "optimizer/vars";
constexpr const char* kInnerGroup = "optimizer/inner_optimizer/vars";
// A LossScaleOptimizer's own: how many updates and which rate, which are the inner one's, how many good ones, the
// scale.
constexpr std::array kScaleNumbers{"", "", "step_counter", "dynamic_scale"};

std::vector<OptimizerVariable> scaled_variables(const Optimizer& optimizer, const Optimizer& inner,
                                                const std::vector<Tensor>& variables) {
  const StateNotes notes(optimizer);
  std::vector<OptimizerVariable> all;
  for (size_t i = 0; i < kScaleNumbers.size(); ++i) {
    const at::ScalarType dtype = i % 2 == 0 ? at::kInt : at::kFloat;
    all.push_back({.path = str(kGroup, '/', i),
                   .name = str(optimizer.name(), '/', kScaleNumbers[i]),
                   .value = number(notes.number_of(kScaleNumbers[i]).value_or(0), dtype)});
  }
  // Keras keeps the inner one's here too; where they are read it takes the others.
  for (OptimizerVariable& variable : Lister(inner, variables, kGroup).list(kScaleNumbers.size())) {
    variable.is_state = false;
    all.push_back(std::move(variable));
  }
  std::ranges::move(Lister(inner, variables, kInnerGroup).list(), std::back_inserter(all));
  return all;
}

// As Keras does where the first batch of a fit has built the optimizer.
void leave_out_placeholders(std::vector<OptimizerVariable>& variables, const std::string& group) {
  std::erase_if(variables,
                [](const OptimizerVariable& variable) { return variable.name.ends_with(str('/', kPlaceholder)); });
  for (size_t i = 0; i < variables.size(); ++i) variables[i].path = str(group, '/', i);
}

double number_at(const files::Hdf5Reader& file, const std::string& path, const std::string& source) {
  const Tensor value = file.read(path);
  const double number = value.numel() == 1 ? value.to(at::kDouble).item<double>() : std::nan("");
  if (!std::isfinite(number) || number < 0 || number >= 0x1p53)
    throw Error(ErrorCode::data_loss, str(source, ": '", path, "' is not one number of an optimizer"));
  return number;
}

}  // namespace

std::vector<OptimizerVariable> optimizer_variables(const Optimizer& optimizer, const std::vector<Tensor>& variables) {
  const c10::NoGradGuard no_grad;
  const auto inner = inner_of(optimizer);
  return inner ? scaled_variables(optimizer, *inner, variables) : Lister(optimizer, variables, kGroup).list();
}

StoredOptimizer::StoredOptimizer(const std::shared_ptr<const files::Hdf5Reader>& file, const Optimizer& optimizer,
                                 const std::vector<Tensor>& variables, const std::string& source)
    : optimizer_(optimizer) {
  std::set<std::string> paths;
  for (const std::string& path : file->datasets())
    if (path.starts_with("optimizer/")) paths.insert(path);
  if (paths.empty()) return;
  const auto inner = inner_of(optimizer);
  const std::string group = inner ? kInnerGroup : kGroup, prefix = inner ? "inner_optimizer/" : "";
  const auto read_number = [&](const std::string& path, const std::string& name) {
    if (paths.contains(path)) numbers_[name] = number_at(*file, path, source);
  };
  read_number(str(group, "/0"), prefix + "iterations");
  const auto rate = StateNotes(optimizer).number_of(prefix + "learning_rate");
  if (rate) read_number(str(group, "/1"), prefix + "learning_rate");
  // Keras keeps it in float32: one that was not changed keeps its digits.
  if (rate)
    if (const auto stored = numbers_.find(prefix + "learning_rate");
        stored != numbers_.end() && static_cast<float>(stored->second) == static_cast<float>(*rate))
      stored->second = *rate;
  if (inner)
    for (size_t i = 2; i < kScaleNumbers.size(); ++i) read_number(str(kGroup, '/', i), kScaleNumbers[i]);

  const auto num_stored = static_cast<size_t>(
      std::ranges::count_if(paths, [&](const std::string& path) { return path.starts_with(group + '/'); }));
  if (num_stored == (rate ? 2 : 1)) return;  // nothing was trained
  optimizer.build(variables);
  std::vector<OptimizerVariable> own = optimizer_variables(optimizer, variables);
  std::erase_if(own, [&](const OptimizerVariable& variable) { return !variable.path.starts_with(group + '/'); });
  if (num_stored < own.size()) leave_out_placeholders(own, group);
  const bool are_there =
      std::ranges::all_of(own, [&](const OptimizerVariable& variable) { return paths.contains(variable.path); });
  if (num_stored != own.size() || !are_there)
    throw Error(ErrorCode::failed_precondition,
                str(source, ": the file has ", num_stored, " variables of the optimizer, ", optimizer.name(), " has ",
                    own.size(), "; {.compile = false} reads the model without it"));
  std::ranges::copy_if(own, std::back_inserter(state_), &OptimizerVariable::is_state);
}

void StoredOptimizer::restore_numbers() const {
  std::map<std::string, double> inner_numbers;
  constexpr std::string_view kPrefix = "inner_optimizer/";
  for (const auto& [name, value] : numbers_)
    if (name.starts_with(kPrefix)) inner_numbers[name.substr(kPrefix.size())] = value;
  NumberSetter own(numbers_), of_inner(inner_numbers);
  optimizer_.impl()->visit_state(own);
  if (const auto inner = inner_of(optimizer_)) inner->impl()->visit_state(of_inner);
}

}  // namespace tutti::keras
