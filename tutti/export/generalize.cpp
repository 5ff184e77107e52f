#include "tutti/export/generalize.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/export/literals.h"
#include "tutti/export/runner.h"
#include "tutti/export/same_bits.h"
#include "tutti/export/size_fit.h"
#include "tutti/export/step_samples.h"
#include "tutti/export/steps.h"

namespace tutti::saved_model {
namespace {

constexpr size_t kMaxSizes = 128;
constexpr size_t kMaxPoints = 512;

// What is drawn here, nobody misses.
class SameRandomNumbers {
 public:
  ~SameRandomNumbers() { generator_.set_state(state_); }
  SameRandomNumbers() = default;
  SameRandomNumbers(const SameRandomNumbers&) = delete;
  SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

 private:
  at::Generator generator_ = at::globalContext().defaultGenerator(at::kCPU);
  Tensor state_ = generator_.get_state();
};

class Generalizer {
 public:
  Generalizer(const std::string& name, const std::vector<Spec>& inputs, const Recording::Function& function,
              const std::map<std::string, Tensor>& names)
      : name_(name), inputs_(inputs), function_(function), names_(names) {}

  Generalized run();

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unimplemented, str("saved_model: the signature '", name_, "' ", what));
  }
  void record();
  void record_new_points();
  void add_products();
  void record_other_values();
  Recorded record_at(const std::vector<int64_t>& sizes, const std::vector<Value>& inputs, Outputs& outputs) const;
  void check_alike(const Recorded& other, const char* what_differs) const;
  std::optional<std::vector<int64_t>> values_of(size_t call, size_t argument, size_t place) const;
  Integer integer(size_t call, size_t argument, size_t place, const std::string& what) const;
  Argument argument(size_t call, size_t argument) const;
  Call call(size_t index) const;
  int final_number(int number) const;
  void find_places(Program& program) const;
  Program program();
  std::vector<ValueType> types() const;
  void verify(const Generalized& result) const;

  const std::string& name_;
  const std::vector<Spec>& inputs_;
  const Recording::Function& function_;
  const std::map<std::string, Tensor>& names_;
  size_t num_input_sizes_ = 0;
  std::optional<SizePoints> points_;
  std::vector<Recorded> recorded_;  // by point
  std::vector<Outputs> outputs_;
  std::optional<Recorded> other_values_;  // at the first point
};

Recorded Generalizer::record_at(const std::vector<int64_t>& sizes, const std::vector<Value>& inputs,
                                Outputs& outputs) const {
  Recording recording(name_, [&](int step_size) {
    const size_t size = num_input_sizes_ + static_cast<size_t>(step_size);
    return size < sizes.size() ? sizes[size] : SizePoints::base(size);
  });
  for (const auto& [name, variable] : names_) recording.name_variable(variable, name);
  if (recorded_.empty()) recording.keep_places();
  return recording.run(function_, inputs, outputs);
}

void Generalizer::record() {
  for (const auto& axes : sizes_of_inputs(inputs_))
    for (const int size : axes) num_input_sizes_ = std::max(num_input_sizes_, static_cast<size_t>(size + 1));
  Outputs outputs;
  const std::vector<int64_t> sizes = SizePoints(num_input_sizes_).all()[0];
  const Recorded first = record_at(sizes, sample_inputs(inputs_, sizes), outputs);
  const size_t num_sizes =
      num_input_sizes_ + static_cast<size_t>(std::ranges::count_if(
                             first.step_results, [](const auto& step) { return step.free_size.has_value(); }));
  if (num_sizes > kMaxSizes)
    refuse(str("has ", num_sizes, " unknown sizes, those of steps on text included; at most ", kMaxSizes,
               " are possible. Give sizes that are known, or an output_sequence_length, or read fewer features"));
  points_.emplace(num_sizes);
  record_new_points();
  add_products();
  record_new_points();
  record_other_values();
  const bool has_other_values = other_values_.has_value();
  if (has_other_values) recorded_.push_back(std::move(*other_values_));
  fold_literals(recorded_);
  if (!has_other_values) return;
  other_values_ = std::move(recorded_.back());
  recorded_.pop_back();
}

void Generalizer::record_new_points() {
  while (recorded_.size() < points_->all().size()) {
    Outputs outputs;
    const std::vector<int64_t>& sizes = points_->all()[recorded_.size()];
    recorded_.push_back(record_at(sizes, sample_inputs(inputs_, sizes), outputs));
    outputs_.push_back(std::move(outputs));
    check_alike(recorded_.back(), "sizes");
  }
}

// What follows from values, as how many of them a mask takes, may look as if it followed from sizes or from nothing.
void Generalizer::record_other_values() {
  const std::vector<int64_t>& sizes = points_->all()[0];
  std::vector<Value> inputs = sample_inputs(inputs_, sizes);
  for (Value& input : inputs)
    if (!input.is_text() && !input.tensor().is_floating_point() && !input.tensor().is_complex())
      input = at::ones_like(input.tensor());
  Outputs outputs;
  try {
    other_values_ = record_at(sizes, inputs, outputs);
  } catch (const c10::Error&) {  // the function cannot take these values: verify() tries others
    return;
  }
  check_alike(*other_values_, "values");
  for (size_t i = 0; i < recorded_[0].calls.size(); ++i)
    if (recorded_[0].calls[i] != other_values_->calls[i])
      refuse(
          str("calls ", recorded_[0].calls[i].op,
              " with a number or tensor that depends on the values of its inputs: C++ computes it, or asks how large "
              "a result is whose sizes depend on values. Compute it by operations on tensors"));
  outputs_.push_back(std::move(outputs));
}

// Products are looked for among the sizes that one integer depends on.
void Generalizer::add_products() {
  for (size_t call = 0; call < recorded_[0].calls.size(); ++call)
    for (size_t argument = 0; argument < recorded_[0].calls[call].arguments.size(); ++argument) {
      const size_t count = recorded_[0].calls[call].arguments[argument].argument.integers.size();
      for (size_t place = 0; place < count; ++place)
        if (const auto values = values_of(call, argument, place)) points_->add_products(*values);
    }
  if (points_->all().size() > kMaxPoints)
    refuse(str("has integers that follow from so many sizes together that ", points_->all().size(),
               " runs would be needed to find how; at most ", kMaxPoints, " are made. Give sizes that are known"));
}

// Of an integer at each point; nothing where there are not as many in one argument.
std::optional<std::vector<int64_t>> Generalizer::values_of(size_t call, size_t argument, size_t place) const {
  std::vector<int64_t> values;
  for (const Recorded& recorded : recorded_) {
    const auto& integers = recorded.calls[call].arguments[argument].argument.integers;
    if (place >= integers.size()) return {};
    values.push_back(integers[place].constant);
  }
  return values;
}

void Generalizer::check_alike(const Recorded& other, const char* what_differs) const {
  const Recorded& base = recorded_[0];
  const auto same_op = [](const Call& one, const Call& another) { return one.op == another.op; };
  if (!std::ranges::equal(base.calls, other.calls, same_op))
    refuse(str("makes other calls where the ", what_differs,
               " of its inputs are others: an `if` or a loop depends on them. Fix the size in the input's spec, or "
               "express it by operations on tensors"));
  for (const Tensor& number : other.read_numbers)
    if (std::ranges::any_of(base.read_numbers, [&](const Tensor& earlier) { return earlier.is_same(number); }))
      refuse(
          "calls aten::item on a tensor from outside, which may have another value later: it gives C++ the value of a "
          "tensor. Express it by operations that take and return tensors");
  if (base.variables.size() != other.variables.size() || base.outputs != other.outputs)
    refuse(str("uses or returns other tensors where the ", what_differs, " of its inputs are others"));
  for (size_t i = 0; i < base.variables.size(); ++i)
    if (!base.variables[i].tensor.is_same(other.variables[i].tensor) &&
        !same_bits(base.variables[i].tensor, other.variables[i].tensor))
      refuse(str("uses a tensor of shape ", str_list(base.variables[i].tensor.sizes()),
                 " that C++ makes anew for each call, with other values or sizes: it cannot be saved. Make it by "
                 "operations on tensors"));
}

Integer Generalizer::integer(size_t call, size_t argument, size_t place, const std::string& what) const {
  const std::vector<int64_t> values = values_of(call, argument, place).value();
  if (const auto integer = points_->fit(values)) return *integer;
  refuse(str("calls ", what,
             " with numbers that follow from the sizes of its inputs otherwise than by sums and "
             "products: ",
             str_list(values), ". Fix the size in the input's spec"));
}

Argument Generalizer::argument(size_t call, size_t argument) const {
  const auto& [name, base] = recorded_[0].calls[call].arguments[argument];
  const std::string what = str(recorded_[0].calls[call].op, ", argument '", name, "',");
  Argument result = base;
  for (const Recorded& recorded : recorded_) {
    Argument other = recorded.calls[call].arguments[argument].argument;
    if (other.integers.size() != base.integers.size())
      refuse(str("calls ", what, " with as many numbers as its inputs' sizes say"));
    other.integers = base.integers;
    if (other != base)
      refuse(str("calls ", what,
                 " with a number or tensor that depends on the sizes of its inputs: C++ computes it. "
                 "Compute it by operations on tensors"));
  }
  for (size_t i = 0; i < result.integers.size(); ++i) result.integers[i] = integer(call, argument, i, what);
  for (int& value : result.values) value = final_number(value);
  return result;
}

// Variables come after the inputs.
int Generalizer::final_number(int number) const {
  if (number >= kFirstVariable) return number - kFirstVariable + static_cast<int>(inputs_.size());
  if (number < static_cast<int>(inputs_.size())) return number;
  return number + static_cast<int>(recorded_[0].variables.size());
}

Call Generalizer::call(size_t index) const {
  Call call = recorded_[0].calls[index];
  for (size_t i = 0; i < call.arguments.size(); ++i) call.arguments[i].argument = argument(index, i);
  for (const Recorded& recorded : recorded_)
    if (recorded.calls[index].results != recorded_[0].calls[index].results)
      refuse(str("calls ", call.op, ", which gives other numbers of tensors where the sizes of its inputs are others"));
  for (Call::Result& result : call.results)
    for (int& value : result.values) value = final_number(value);
  return call;
}

// The places of a size are the inputs' and the steps' axes that have it.
void Generalizer::find_places(Program& program) const {
  program.sizes.resize(points_->all()[0].size());
  const auto sizes = sizes_of_inputs(inputs_);
  for (size_t input = 0; input < sizes.size(); ++input)
    for (size_t axis = 0; axis < sizes[input].size(); ++axis)
      if (sizes[input][axis] >= 0)
        program.sizes[static_cast<size_t>(sizes[input][axis])].push_back(
            {static_cast<int>(input), static_cast<int>(axis)});
  for (size_t step = 0; step < recorded_[0].step_results.size(); ++step) {
    const Recorded::StepResult& base = recorded_[0].step_results[step];
    for (size_t axis = 0; axis < base.sizes.size(); ++axis) {
      std::vector<int64_t> values;
      for (const Recorded& recorded : recorded_) values.push_back(recorded.step_results[step].sizes[axis]);
      const auto fit = points_->fit(values);
      if (!fit || fit->constant || fit->terms.size() != 1 || fit->terms[0].factor != 1 ||
          fit->terms[0].sizes.size() != 1)
        continue;
      program.sizes[static_cast<size_t>(fit->terms[0].sizes[0])].push_back(
          {final_number(base.value), static_cast<int>(axis)});
    }
  }
}

Program Generalizer::program() {
  Program program{.name = name_, .inputs = inputs_};
  for (const Recorded::Variable& variable : recorded_[0].variables) program.variables.push_back(variable.name);
  find_places(program);
  for (size_t i = 0; i < recorded_[0].calls.size(); ++i) program.calls.push_back(call(i));
  size_t number = 0;
  for (const auto& [name, output] : outputs_[0]) {
    Spec spec;
    spec.name = name;
    spec.is_text = output.is_text();
    if (!spec.is_text && !output.tensor().defined()) refuse(str("returns an undefined tensor as '", name, "'"));
    if (!spec.is_text) spec.dtype = output.tensor().scalar_type();
    const auto sizes_at = [&](const Outputs& outputs) {
      const Value& value = outputs.at(name);
      return value.is_text() ? value.text().shape() : value.tensor().sizes().vec();
    };
    spec.shape = sizes_at(outputs_[0]);
    for (const Outputs& outputs : outputs_) {
      const std::vector<int64_t> sizes = sizes_at(outputs);
      if (sizes.size() != spec.shape.size()) refuse(str("returns '", name, "' of another rank for other sizes"));
      for (size_t axis = 0; axis < sizes.size(); ++axis)
        if (sizes[axis] != spec.shape[axis]) spec.shape[axis] = kUnknown;
    }
    program.outputs.push_back({std::move(spec), final_number(recorded_[0].outputs[number++])});
  }
  return program;
}

std::vector<ValueType> Generalizer::types() const {
  std::vector<ValueType> types;
  const std::vector<Recorded::Form>& base = recorded_[0].forms;
  const auto add_variables = [&] {
    for (const Recorded::Variable& variable : recorded_[0].variables) {
      types.push_back({.dtype = variable.tensor.scalar_type()});
      for (const int64_t size : variable.tensor.sizes()) types.back().sizes.emplace_back(Integer{size});
    }
  };
  for (size_t value = 0; value < base.size(); ++value) {
    if (value == inputs_.size()) add_variables();
    types.emplace_back();
    const auto has_rank = [&](const Recorded& other) {
      return other.forms[value].sizes.size() == base[value].sizes.size();
    };
    if (!std::ranges::all_of(recorded_, has_rank) || (other_values_ && !has_rank(*other_values_))) continue;
    types.back().dtype = base[value].dtype;
    for (size_t axis = 0; axis < base[value].sizes.size(); ++axis) {
      std::vector<int64_t> sizes;
      for (const Recorded& recorded : recorded_) sizes.push_back(recorded.forms[value].sizes[axis]);
      const bool depends_on_values = other_values_ && other_values_->forms[value].sizes[axis] != sizes[0];
      types.back().sizes.push_back(depends_on_values ? std::nullopt : points_->fit(sizes));
    }
  }
  if (base.size() == inputs_.size()) add_variables();
  return types;
}

std::vector<Value> run_program(const Generalized& made, const Program& program, const std::vector<Value>& inputs) {
  std::vector<Tensor> variables;
  for (const auto& variable : made.variables) variables.push_back(variable.tensor);
  std::vector<Runner::Step> steps;
  for (const auto& step : made.steps) steps.push_back(make_step(step));
  return Runner(program, variables, std::move(steps), at::kCPU, "saved_model").run(inputs);
}

// Inputs that were not recorded. Text is what the steps that take it know, a feature of any length 1 to most_values
// values.
std::vector<Value> other_inputs(const Generalized& result, size_t most_values) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < result.program.sizes.size(); ++i) sizes.push_back(SizePoints::base(i) + 1);
  std::vector<Value> inputs = sample_inputs(result.program.inputs, sizes);
  std::map<size_t, std::vector<keras::layers::PreprocessingOptions>> readers;
  std::map<std::string, Words> words;
  for (const auto& step_options : result.steps)
    if (const auto* const ids = std::get_if<keras::layers::CategoryIdsOptions>(&step_options); ids && ids->vocabulary)
      words[ids->feature] = ids->vocabulary;
  size_t step = 0;
  for (const Call& call : result.program.calls) {
    if (!call.is_step) continue;
    for (const int value : operands_of(call))
      if (const auto input = static_cast<size_t>(value); input < inputs.size() && inputs[input].is_text())
        readers[input].push_back(result.steps[step]);
    ++step;
  }
  for (const auto& [input, layers] : readers)
    inputs[input] = sample_text(layers, inputs[input].text().shape(), words, most_values);
  return inputs;
}

// The program with a call after each that makes memory without a value, which gives it this one.
Program with_memory_filled(const Program& program, int64_t value) {
  Program filled = program;
  filled.calls.clear();
  for (const Call& call : program.calls) {
    filled.calls.push_back(call);
    if (!makes_memory_without_value(call)) continue;
    const std::vector<int> made = call.results[0].values;
    filled.calls.push_back({.op = "aten::fill_.Scalar",
                            .arguments = {{"self", {.kind = Argument::Kind::value, .values = made}},
                                          {"value", {.kind = Argument::Kind::integer, .integers = {{value}}}}},
                            .results = {{.values = made}}});
  }
  return filled;
}

// Whatever memory of empty() holds, the program is to give what the function gives.
void Generalizer::verify(const Generalized& result) const {
  const c10::NoGradGuard no_grad;
  std::vector<Value> inputs = other_inputs(result, 2);
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const Tensor state = generator.get_state();
  Outputs expected;
  try {
    expected = function_(inputs);
  } catch (const Error&) {  // one that asks for sequences of one length takes those of one step
    inputs = other_inputs(result, 1);
    generator.set_state(state);
    expected = function_(inputs);
  }
  for (const int64_t memory : {0, 1}) {
    generator.set_state(state);  // for a function that draws
    const std::vector<Value> seen = run_program(result, with_memory_filled(result.program, memory), inputs);
    size_t number = 0;
    for (const auto& [name, value] : expected)
      if (!same_bits(value, seen[number++]))
        refuse(str("gives another '", name,
                   "' on other inputs than what it did while it was recorded says: C++ reads or writes the memory of a "
                   "tensor, keeps something from call to call, or uses what empty() made before it has a value. Do it "
                   "by operations on tensors"));
    if (std::ranges::none_of(result.program.calls, makes_memory_without_value)) return;
  }
}

Generalized Generalizer::run() {
  const SameRandomNumbers afterwards;
  record();
  Generalized result{.program = program(),
                     .variables = recorded_[0].variables,
                     .steps = recorded_[0].steps,
                     .types = types(),
                     .places = recorded_[0].places};
  verify(result);
  return result;
}

Tensor sample_tensor(const Spec& spec, const std::vector<int64_t>& shape) {
  const auto dtype = at::TensorOptions().dtype(spec.dtype);
  if (at::isFloatingType(spec.dtype)) return at::randn(shape, at::kFloat).to(spec.dtype);
  if (at::isComplexType(spec.dtype)) return at::randn(shape, dtype);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(count).remainder(2).reshape(shape).to(spec.dtype);
}

}  // namespace

std::vector<std::vector<int>> sizes_of_inputs(const std::vector<Spec>& inputs) {
  const bool has_batch =
      std::ranges::any_of(inputs, [](const Spec& spec) { return !spec.shape.empty() && spec.shape[0] == kUnknown; });
  int next = has_batch ? 1 : 0;
  std::vector<std::vector<int>> sizes;
  for (const Spec& spec : inputs) {
    sizes.emplace_back();
    for (size_t axis = 0; axis < spec.shape.size(); ++axis)
      sizes.back().push_back(spec.shape[axis] != kUnknown ? -1 : axis == 0 ? 0 : next++);
  }
  return sizes;
}

std::vector<Value> sample_inputs(const std::vector<Spec>& inputs, const std::vector<int64_t>& sizes) {
  const auto numbers = sizes_of_inputs(inputs);
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::vector<int64_t> shape = inputs[i].shape;
    size_t count = 1;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (numbers[i][axis] >= 0) shape[axis] = sizes[static_cast<size_t>(numbers[i][axis])];
      count *= static_cast<size_t>(shape[axis]);
    }
    if (inputs[i].is_text)
      values.emplace_back(Strings(std::vector<std::string>(count, "a"), shape));
    else
      values.emplace_back(sample_tensor(inputs[i], shape));
  }
  return values;
}

Generalized generalize(const std::string& name, const std::vector<Spec>& inputs, const Recording::Function& function,
                       const std::map<std::string, Tensor>& names) {
  return Generalizer(name, inputs, function, names).run();
}

}  // namespace tutti::saved_model
