#include "recorded.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "machine.h"
#include "print.h"
#include "tests/support/test_graphs.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/backward_here.h"
#include "tutti/function/function.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::fuzz {
namespace {

const int kRuns = test_graphs() ? 7 : 5;

bool is_argument(const Input& input) { return !input.requires_grad && input.slot % 2 == 0; }

// One side: tensors that stay from run to run, and a way to run the statements.
class World {
 public:
  explicit World(const Program& program) : program_(program), inputs_only_{.inputs = program.inputs} {
    if (program.place != Place::recorded) mesh_ = mesh_of(program);
    for (const Input& input : program.inputs)
      if (!is_argument(input)) kept_[input.slot] = placed(input).set_requires_grad(input.requires_grad);
  }

  std::vector<Tensor> arguments(int run) const {
    std::vector<Tensor> tensors;
    for (Input input : program_.inputs)
      if (is_argument(input)) {
        if (input.elements != Elements::indices) input.start += 2 * run;
        tensors.push_back(placed(input));
      }
    return tensors;
  }

  // The results, by slot. Throws what a statement throws.
  std::vector<Tensor> run(const std::vector<Tensor>& arguments) const {
    Machine machine(program_);
    machine.restore(slots(arguments));
    for (const Statement& statement : program_.statements) machine.run(statement);
    std::vector<Tensor> results;
    for (const auto& [slot, tensor] : machine.slots())
      if (!kept_.count(slot)) results.push_back(tensor);
    return results;
  }

  // What all inputs and gradients are now.
  std::vector<Seen> look(const std::vector<Tensor>& arguments) const {
    Machine machine(inputs_only_);
    machine.restore(slots(arguments));
    return machine.run_all([](const Tensor& tensor) { return tensor; }).seen;
  }

 private:
  Tensor placed(const Input& input) const { return mesh_ ? on_mesh(input, *mesh_) : make_value(input); }

  std::map<int, Tensor> slots(const std::vector<Tensor>& arguments) const {
    std::map<int, Tensor> slots = kept_;
    size_t next = 0;
    for (const Input& input : program_.inputs)
      if (is_argument(input)) slots[input.slot] = arguments[next++];
    return slots;
  }

  const Program& program_;
  const Program inputs_only_;
  std::optional<Mesh> mesh_;
  std::map<int, Tensor> kept_;
};

Tensor dense(const Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const Tensor whole = gather(tensor);
  return at::zeros(whole.sizes(), whole.options().device(at::kCPU)).copy_(whole);
}

// Of tensors that are laid out alike. Which of two NaNs a product is LibTorch leaves to where in a vector the element
// lies, so one NaN is as good as another.
bool has_the_same_numbers(const Tensor& a, const Tensor& b) {
  if (!a.nbytes() || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0) return true;
  if (a.is_complex()) return has_the_same_numbers(at::view_as_real(a), at::view_as_real(b));
  if (!a.is_floating_point()) return false;
  const auto without_nans = [](const Tensor& x) { return at::where(at::isnan(x), at::zeros({}, x.options()), x); };
  const Tensor x = without_nans(a), y = without_nans(b);
  return at::isnan(a).equal(at::isnan(b)) && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

std::string difference(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return a.defined() ? "is defined, plain is not" : "is undefined, plain is not";
  if (!a.defined()) return "";
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes())
    return str("is ", c10::toString(a.scalar_type()), str_list(a.sizes()), ", not ", c10::toString(b.scalar_type()),
               str_list(b.sizes()));
  Tensor x, y;
  if (failure_of([&] { y = dense(b); })) return "";  // LibTorch cannot say what it is
  x = dense(a);
  if (!has_the_same_numbers(x, y)) return str("is ", values_text(x), ", not ", values_text(y));
  if (a.requires_grad() != b.requires_grad()) return str("requires a gradient: ", a.requires_grad());
  return "";
}

bool is_refusal(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return own->code() != ErrorCode::internal;
  return std::string_view(error.what()).find("while the function is recorded") != std::string_view::npos;
}

// How no elements lie, which a recorded gather has otherwise, decides whether LibTorch sees another type in them.
bool is_about_no_elements(const Program& program, const std::exception& error) {
  return std::string_view(error.what()).find("must be 1 to view") != std::string_view::npos &&
         std::any_of(program.inputs.begin(), program.inputs.end(),
                     [](const Input& input) { return c10::multiply_integers(input.sizes) == 0; });
}

// Whether LibTorch gives other bits the second time: of memory that it never wrote.
bool is_unsteady(const Program& program) {
  World one(program), other(program);
  for (int run = 0; run < kRuns; ++run) {
    std::vector<Tensor> a, b;
    const auto arguments = one.arguments(run), same = other.arguments(run);
    at::manual_seed(5);
    if (failure_of([&] { a = one.run(arguments); })) return false;
    const Tensor occupied = at::zeros({run * 100 + 50});
    at::manual_seed(5);
    b = other.run(same);
    for (size_t i = 0; i < a.size(); ++i)
      if (!difference(a[i], b[i]).empty()) return true;
  }
  return false;
}

// Of one LibTorch returns what it never wrote.
bool takes_polynomial_of_nan(const Program& program) {
  const auto is_polynomial = [](const Statement& statement) {
    return statement.op && op_name(*statement.op).find("_polynomial_") != std::string::npos;
  };
  if (!std::ranges::any_of(program.statements, is_polynomial)) return false;
  const auto has_nan = [](const Tensor& tensor) {
    return tensor.defined() && tensor.is_floating_point() && at::isnan(dense(tensor)).any().item<bool>();
  };
  World plain(program);
  for (int run = 0; run < kRuns; ++run) {
    const auto arguments = plain.arguments(run);
    std::vector<Tensor> results;
    if (failure_of([&] { results = plain.run(arguments); })) return false;
    if (std::ranges::any_of(results, has_nan) || std::ranges::any_of(arguments, has_nan)) return true;
  }
  return false;
}

Verdict compare_runs(const Program& program) {
  const BackwardHere in_one_order;  // on a GPU gradients may meet in another one on LibTorch's own thread
  World plain(program), recorded(program);
  const auto f = function([&](const std::vector<Tensor>& arguments) { return recorded.run(arguments); });
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<Tensor> plain_arguments = plain.arguments(run), own_arguments = recorded.arguments(run);
    std::vector<Tensor> wanted, seen;
    at::manual_seed(5);
    const auto failure = failure_of([&] { wanted = plain.run(plain_arguments); });
    at::manual_seed(5);
    try {
      seen = f(own_arguments);
      if (failure && test_graphs()) return {"invalid", "a graph says late what fails: " + failure->text};
      if (failure) return {"no error", str("run ", run, ": no error; plain: ", failure->text)};
    } catch (const Invalid&) {
      throw;
    } catch (const std::exception& error) {
      if (failure || is_refusal(error) || is_about_no_elements(program, error)) return {"invalid", error.what()};
      return {"throws", str("run ", run, ": ", error.what())};
    }
    if (seen.size() != wanted.size()) return {"results", str("run ", run, ": ", seen.size(), " results")};
    for (size_t i = 0; i < seen.size(); ++i)
      if (const auto text = difference(seen[i], wanted[i]); !text.empty())
        return {"value", str("run ", run, ": result ", i, ' ', text)};
    const auto plain_after = plain.look(plain_arguments), own_after = recorded.look(own_arguments);
    for (size_t i = 0; i < own_after.size(); ++i)
      if (const auto text = difference(own_after[i].value, plain_after[i].value); !text.empty())
        return {own_after[i].is_gradient ? "gradient" : "input",
                str("run ", run, ": ", own_after[i].is_gradient ? "the gradient of " : "",
                    slot_name(program, own_after[i].slot), ' ', text)};
  }
  return {};
}

}  // namespace

Verdict check_recorded(const Program& program) {
  Verdict verdict = compare_runs(program);
  if (verdict.is_finding() && is_unsteady(program)) return {"invalid", "LibTorch's own results differ"};
  if (verdict.kind == "value" && takes_polynomial_of_nan(program)) return {"invalid", "a polynomial of a NaN"};
  return verdict;
}

void run_plainly(Program program) {
  program.place = Place::recorded;
  const World plain(program);
  for (int run = 0; run < kRuns; ++run) failure_of([&] { plain.run(plain.arguments(run)); });
}

}  // namespace tutti::fuzz
