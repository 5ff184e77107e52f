#include "generate.h"

#include <ATen/Context.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "call_maker.h"
#include "machine.h"
#include "optimizers.h"
#include "tests/support/dice.h"

namespace tutti::fuzz {
namespace {

constexpr int kAttempts = 6;                  // to make a call that LibTorch takes
constexpr int64_t kMostElements = 4'000'000;  // of a tensor

class Generator {
 public:
  Generator(uint64_t seed, const std::vector<OpFamily>& families, const std::vector<Place>& places,
            const std::function<void(const std::string&)>& note)
      : dice_(seed), families_(families), places_(places), note_(note), machine_(program_) {
    for (const OpFamily& family : families) total_weight_ += family.weight;
  }

  Program make() {
    choose_mesh();
    choose_habits();
    at::manual_seed(5);
    failure_of([&] { add_statements(); });  // LibTorch throws where it is asked for a grad_fn that a hook forbids
    return program_;
  }

 private:
  void add_statements() {
    const int64_t most = is_recorded(program_.place) ? 20 : 9;  // passes over a recording see more at once
    const int64_t calls = dice_.chance(45) ? 1 : dice_.between(3, most);
    for (int64_t i = 0; i < calls && !failed_; ++i) {
      add_call();
      if (calls > 1 && !failed_) add_other();
    }
    if (habits_.gradients && !failed_) add_gradients();
  }

  void choose_mesh() {
    program_.place = dice_.pick(places_);
    program_.mesh = program_.place == Place::recorded ? Sizes{1}
                    : program_.place == Place::replicas
                        ? dice_.pick<Sizes>({{1}, {2}, {3}, {4}})
                        : dice_.pick<Sizes>(
                              {{1}, {2}, {2}, {3}, {4}, {5}, {8}, {12}, {2, 2}, {2, 3}, {3, 2}, {2, 2, 2}, {2, 2, 3}});
  }

  void choose_habits() {
    static const std::vector<at::ScalarType> kTypes{
        at::kFloat,         at::kFloat, at::kFloat, at::kFloat,    at::kDouble,   at::kDouble,
        at::kDouble,        at::kHalf,  at::kHalf,  at::kBFloat16, at::kBFloat16, at::kComplexFloat,
        at::kComplexDouble, at::kLong,  at::kInt,   at::kBool,     at::kByte,     at::kShort};
    habits_.dtype = dice_.pick(kTypes);
    habits_.gradients = (at::isFloatingType(habits_.dtype) || at::isComplexType(habits_.dtype)) && dice_.chance(70);
    habits_.odd = dice_.chance(15);
    habits_.huge = !is_recorded(program_.place) && dice_.chance(3);  // a recording keeps what it made
  }

  const c10::OperatorHandle& choose_op() {
    int64_t at = dice_.below(total_weight_);
    for (const OpFamily& family : families_) {
      at -= family.weight;
      if (at < 0) {
        // Without out= forms most of the time: there is one for nearly every op.
        for (int attempt = 0;; ++attempt) {
          const auto& op = dice_.pick(family.overloads);
          if (attempt > 4 || op.schema().arguments().empty() || !op.schema().arguments().back().is_out() ||
              dice_.chance(20))
            return op;
        }
      }
    }
    return families_[0].overloads[0];
  }

  // Runs the statement on the plain values; it joins the program where LibTorch takes it, or where errors are wanted.
  bool add(const Statement& statement, bool even_failing) {
    note_(statement.op ? op_name(*statement.op) : "gradient");
    const auto failure = failure_of([&] { machine_.run(statement); });
    if (failure && !even_failing) return false;
    if (!failure && too_large(statement)) return false;
    program_.statements.push_back(statement);
    failed_ = failure.has_value();
    return true;
  }

  // Whether a product is written to one of its factors, which BLAS reads when it has written to them, elements are
  // written over those that are yet to be read, or what is in the memory of booleans is or may become something else.
  // The gradient of a view that gets another geometry in place, or whose origin does, LibTorch takes of what it was.
  bool is_left_open(const Statement& statement) const {
    const std::string name = op_name(*statement.op);
    if (statement.op->hasTag(at::Tag::inplace_view)) {
      const Tensor& changed = machine_.slots().at(statement.arguments[0].slots[0]);
      const auto is_its_view = [&](const auto& slot) {
        const Tensor& other = slot.second;
        return other.defined() && other.is_view() && other.requires_grad() && other.is_alias_of(changed);
      };
      if (std::any_of(machine_.slots().begin(), machine_.slots().end(), is_its_view)) return true;
    }
    if (reaches_past_an_end(statement)) return true;
    const auto operand = [&](size_t argument) { return machine_.slots().at(statement.arguments[argument].slots[0]); };
    const auto is_dense = [this](int slot) { return machine_.slots().at(slot).is_non_overlapping_and_dense(); };
    const auto& operands = statement.arguments;
    if (name.rfind("median", 0) == 0 || name.rfind("nanmedian", 0) == 0)  // finds any of elements that share memory
      return !is_dense(operands[0].slots[0]);
    if (name == "_foreach_copy")  // to copies that repeat elements as the tensors do
      return !std::ranges::all_of(operands[0].slots, is_dense);
    if (name == "binary_cross_entropy")  // leaves losses unwritten
      return operand(1).numel() > operand(0).numel();
    if (name == "view.dtype")
      return operand(0).scalar_type() == at::kBool || operands[1].constant.toScalarType() == at::kBool;
    // Reads what it has written.
    static constexpr const char* kInPlace[] = {"mm_", "mv_", "addr_", "masked_scatter_", "index_copy_"};
    return is_written(statement.op->schema().arguments()[0]) &&
           std::ranges::any_of(kInPlace, [&](const char* op) { return name.find(op) != std::string::npos; }) &&
           std::any_of(operands.begin() + 1, operands.end(), [&](const Argument& other) {
             return other.kind == Argument::Kind::tensor && other.slots[0] >= 0 &&
                    operand(0).is_alias_of(machine_.slots().at(other.slots[0]));
           });
  }

  // Whether LibTorch reads or writes past an end: a transform below autograd whose axes count from the last, a copy of
  // fewer tensors than there are, an LSTM of other than three axes or whose weights are no matrices, bags of rows of a
  // table that has none or where no bag begins, distances between no rows, a fused optimizer whose count of steps has
  // no element, the gradient of a convolution by thnn of other than contiguous images and weights, a batch norm that
  // gets more or fewer numbers than there are channels, or with gaps, one into an out= of other than contiguous images;
  // samples of images in half precision, whose places it counts in 16 bits; rows that are swapped with none; a
  // convolution whose weights are not of the size of its kernel.
  bool reaches_past_an_end(const Statement& statement) const {
    const std::string name = op_name(*statement.op);
    const auto& arguments = statement.arguments;
    const auto tensor = [&](size_t argument) { return machine_.slots().at(arguments[argument].slots[0]); };
    const auto any_of = [&](size_t argument, const auto& holds) {
      const auto& slots = arguments[argument].slots;
      return std::any_of(slots.begin(), slots.end(), [&](int slot) { return holds(machine_.slots().at(slot)); });
    };
    if (name.rfind("_fft_", 0) == 0) {
      const std::vector<int64_t> axes = arguments[1].constant.toIntVector();
      return std::any_of(axes.begin(), axes.end(), [](int64_t axis) { return axis < 0; });
    }
    if (name == "lstm.input")
      return tensor(0).dim() != 3 || any_of(2, [](const Tensor& parameter) { return parameter.dim() > 2; });
    if (name.rfind("embedding_bag", 0) == 0) return tensor(0).numel() == 0 || tensor(2).numel() == 0;
    if (name == "pdist") return tensor(0).numel() == 0;
    if (name.rfind("_fused_adam", 0) == 0) return any_of(5, [](const Tensor& steps) { return steps.numel() == 0; });
    if (name.rfind("grid_sampler", 0) == 0) return has_places_beyond_16_bits(tensor(0));
    if (name.rfind("lu_unpack", 0) == 0) return tensor(0).dim() >= 2 && names_no_rows(tensor(1), tensor(0).size(-2));
    if (name == "thnn_conv2d") return !tensor(0).is_contiguous() || !tensor(1).is_contiguous();
    if (name.rfind("slow_conv3d", 0) == 0 || name.rfind("slow_conv_transpose", 0) == 0)
      return tensor(1).dim() > 2 && tensor(1).sizes().slice(2) != arguments[2].constant.toIntVector();
    if (name == "native_batch_norm.out" && !tensor(0).is_contiguous(tensor(0).suggest_memory_format())) return true;
    if (name.rfind("_foreach_copy", 0) == 0) return arguments[0].slots.size() != arguments[1].slots.size();
    return (name == "batch_norm" || name.find("native_batch_norm") != std::string::npos) && misses_channels(statement);
  }

  static bool names_no_rows(const Tensor& pivots, int64_t rows) {
    return pivots.lt(1).logical_or_(pivots.gt(rows)).any().item<bool>();
  }

  static bool has_places_beyond_16_bits(const Tensor& images) {
    int64_t last = 0;
    for (int64_t axis = 2; axis < images.dim(); ++axis) last += (images.size(axis) - 1) * images.stride(axis);
    return at::isReducedFloatingType(images.scalar_type()) && last > std::numeric_limits<int16_t>::max();
  }

  bool misses_channels(const Statement& statement) const {
    const auto operand = [&](size_t i) {
      const Argument& argument = statement.arguments[i];
      return argument.kind == Argument::Kind::tensor && argument.slots[0] >= 0 ? machine_.slots().at(argument.slots[0])
                                                                               : Tensor();
    };
    const Tensor input = operand(0);
    for (size_t i = 1; i < 5; ++i)  // weight, bias, and the running statistics where the overload has them
      if (const Tensor values = operand(i);
          values.defined() && input.dim() >= 2 && (values.numel() != input.size(1) || !values.is_contiguous()))
        return true;
    return false;
  }

  bool too_large(const Statement& statement) const {
    const auto& slots = machine_.slots();
    return std::any_of(slots.lower_bound(statement.result), slots.end(),
                       [](const auto& slot) { return slot.second.defined() && slot.second.numel() > kMostElements; });
  }

  bool has_large_inputs(size_t from) const {
    return std::any_of(program_.inputs.begin() + static_cast<ptrdiff_t>(from), program_.inputs.end(),
                       [](const Input& input) { return c10::multiply_integers(input.sizes) > kMostElements; });
  }

  void set_new_inputs(size_t from) {
    for (size_t i = from; i < program_.inputs.size(); ++i) {
      const Input& input = program_.inputs[i];
      machine_.set(input.slot, make_value(input).set_requires_grad(input.requires_grad));
    }
  }

  void add_call() {
    const auto& op = choose_op();
    // Each replica draws numbers of its own.
    if (program_.place == Place::replicas && op.hasTag(at::Tag::nondeterministic_seeded)) return;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const size_t inputs = program_.inputs.size(), statements = program_.statements.size();
      const auto slots = machine_.slots();
      CallMaker maker(dice_, program_, slots, habits_);
      auto statement = maker.make(op);
      if (!statement) return program_.inputs.resize(inputs);
      if (program_.place != Place::replicas && dice_.chance(12)) statement->no_grad = true;
      const auto& arguments = op.schema().arguments();
      if (!arguments.empty() && is_written(arguments[0]) && dice_.chance(70)) statement->no_grad = true;
      bool good = !has_large_inputs(inputs);
      if (good) set_new_inputs(inputs);
      for (const Statement& view : maker.take_views()) good = good && add(view, false);
      if (good && !is_left_open(*statement) && add(*statement, habits_.odd && dice_.chance(50))) return;
      program_.inputs.resize(inputs);
      program_.statements.resize(statements);
      machine_.restore(slots);
    }
  }

  std::vector<int> differentiable(bool leaves_only) const {
    std::vector<int> found;
    if (leaves_only) {
      for (const Input& input : program_.inputs)
        if (input.requires_grad) found.push_back(input.slot);
    } else {
      for (const auto& [slot, tensor] : machine_.slots())
        if (tensor.defined() && tensor.requires_grad() && tensor.grad_fn() && !is_shared(tensor)) found.push_back(slot);
    }
    return found;
  }

  // Whether replicas share the tensor: a graph that they give it is known to ops, not to the tensor's own methods.
  bool is_shared(const Tensor& tensor) const {
    return program_.place == Place::replicas &&
           std::any_of(program_.inputs.begin(), program_.inputs.end(),
                       [&](const Input& input) { return machine_.slots().at(input.slot).is_same(tensor); });
  }

  // Hooks, gradients and optimizers between the calls.
  void add_other() {
    const auto leaves = differentiable(true), results = differentiable(false);
    if (leaves.empty()) return;
    const int64_t choice = dice_.below(40);
    if (choice == 0)
      add({.kind = Statement::Kind::hook, .arguments = {{Argument::Kind::tensor, {dice_.pick(leaves)}}}}, false);
    if (choice == 1 && !results.empty())
      add({.kind = Statement::Kind::hook, .arguments = {{Argument::Kind::tensor, {dice_.pick(results)}}}}, false);
    if (choice == 2 && !results.empty()) {
      add({.kind = Statement::Kind::backward, .arguments = {{Argument::Kind::tensors, {dice_.pick(results)}}}}, false);
      if (dice_.chance(50)) {
        Statement read{.kind = Statement::Kind::read_gradient,
                       .arguments = {{Argument::Kind::tensor, {dice_.pick(leaves)}}}};
        read.result = program_.next_slot;
        program_.next_slot += Program::kResults;
        add(read, false);
      }
      if (dice_.chance(40)) add({.kind = Statement::Kind::zero_gradients}, false);
      if (dice_.chance(60) && program_.place != Place::replicas)
        add({.kind = Statement::Kind::optimizer_step,
             .optimizer = static_cast<int>(dice_.below(static_cast<int64_t>(Optimizers::names().size())))},
            false);
    }
  }

  void add_gradients() {
    auto results = differentiable(false);
    const auto leaves = differentiable(true);
    if (results.empty() || leaves.empty()) return;
    if (program_.place != Place::replicas && dice_.chance(35)) {  // in a replica leaves are its own
      Statement gradient{.kind = Statement::Kind::gradient,
                         .arguments = {{Argument::Kind::tensors, results}, {Argument::Kind::tensors, leaves}}};
      gradient.result = program_.next_slot;
      program_.next_slot += Program::kResults;
      if (leaves.size() < Program::kResults && add(gradient, false)) results = differentiable(false);
    }
    const size_t kMax = 12;
    if (results.size() > kMax) results.erase(results.begin(), results.end() - static_cast<int64_t>(kMax));
    add({.kind = Statement::Kind::backward, .arguments = {{Argument::Kind::tensors, results}}}, true);
  }

  Dice dice_;
  const std::vector<OpFamily>& families_;
  const std::vector<Place>& places_;
  const std::function<void(const std::string&)>& note_;
  int64_t total_weight_ = 0;
  Program program_;
  Machine machine_;
  Habits habits_;
  bool failed_ = false;
};

}  // namespace

Program generate(uint64_t seed, const std::vector<OpFamily>& families, const std::vector<Place>& places,
                 const std::function<void(const std::string&)>& note) {
  return Generator(seed, families, places, note).make();
}

}  // namespace tutti::fuzz
