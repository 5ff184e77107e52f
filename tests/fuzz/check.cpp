#include "check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "facts.h"
#include "print.h"
#include "recorded.h"
#include "tests/support/test_devices.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::fuzz {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// What LibTorch takes and a mesh refuses by design, in docs/.
constexpr const char* kDocumentedRefusals[] = {
    "in-place on a plain tensor with mesh operands",
    "uses a view that global view made",
    "uses a tensor that global view computed",
    "changes the shape of a tensor",
    "that all replicas share; make the tensor so large outside of run",
    "more than one element of the written-to tensor refers to a single memory location",  // but by expand()
    "of a view of separate buffers: ",
    "of separate buffers: give it a view of the result's shape",
    "that needs a gradient and has views",
    "second derivatives across replicas are not supported",
};

// An error that one side gives and the other does not, and why that is right.
struct KnownError {
  const char* text;
  const char* why;
  const char* op = "";  // how its name begins
  bool of_no_elements = false;
  bool unless_both = false;  // whether it counts where the other side fails too
};
constexpr const char* kNoMemory = "more memory than a program is given";
constexpr KnownError kErrorsOfMeshes[] = {
    {.text = "DefaultCPUAllocator: ", .why = kNoMemory},
    {.text = "view size is not compatible",
     .why = "LibTorch's kron takes no transposed factor, but with an out=",
     .op = "kron.out"},
    {.text = "TensorAccessor expected 1 dims",
     .why = "LibTorch's batch norm looks at the axes of statistics that it leaves alone, but of some strides",
     .op = "native_batch_norm.out"},
    {.text = "expected scalar type",
     .why = "LibTorch's batch norm asks for a type of statistics, but of some strides",
     .op = "native_batch_norm"},
    {.text = "can't be cast to the desired output type",
     .why = "LibTorch writes the loss of no images to an out= of any type",
     .op = "nll_loss2d.out",
     .of_no_elements = true},
    {.text = "Dimension out of range",
     .why = "LibTorch's cummin and cummax of no elements do not look at their axis",
     .op = "cumm"},
    {.text = "can't be cast to the desired output type",
     .why = "LibTorch's convolution takes a bias of another type than the images', but of no images",
     .op = "conv"},
    {.text = "\"neg_cpu\" not implemented for 'Bool'",
     .why = "a negated view of truth values, which a private op alone makes, and LibTorch cannot compute either"},
    {.text = "Output size is too small",
     .why =
         "LibTorch's kernel of one image refuses a convolution that leaves no elements, and that of several does not",
     .op = "conv",
     .of_no_elements = true},
    {.text = "not implemented for",
     .why = "LibTorch's kernels of no elements take types that they do not know",
     .of_no_elements = true},
    {.text = "Autograd not support dtype",
     .why = "LibTorch gives views of integers no gradient, but takes those for such that were compared in place"},
    {.text = "must be 1 to view",
     .why = "how no elements lie decides whether LibTorch sees another type in them",
     .op = "view",
     .of_no_elements = true},
    {.text = "must be divisible by",
     .why = "how no elements lie decides whether LibTorch sees another type in them",
     .op = "view",
     .of_no_elements = true},
};
constexpr const char* kOperandOfDropout = "LibTorch's dropout of no elements returns its operand";
constexpr KnownError kErrorsOfLibTorch[] = {
    {.text = "DefaultCPUAllocator: ", .why = kNoMemory},
    {.text = "grad_input must be contiguous",
     .why = "LibTorch's kernel insists on a gradient of its own making; pieces lie so"},
    {.text = "leaf variable has been moved into the graph interior", .why = kOperandOfDropout},
    {.text = "\" not implemented for '",
     .why = "a kernel that LibTorch lacks for a type, which a mesh does without",
     .unless_both = true},
    {.text = "view_as_real doesn't work on unresolved conjugated tensors",
     .why = "a view whose pieces had to move is a copy, of which nothing is left to be conjugated",
     .op = "view_as_real"},
    {.text = "derivative for", .why = "a mesh knows derivatives that LibTorch's kernels lack"},
    {.text = "INTERNAL ASSERT",
     .why = "an internal error of LibTorch's, which a mesh does not have",
     .unless_both = true},
    {.text = "result type Long can't be cast to the desired output type Bool",
     .why = "LibTorch's product of truth values over no elements takes its addend for whole numbers",
     .op = "linear"},
    {.text = "std_var_all: Unsupported dtype",
     .why = "a variance of all elements into an out= of another type, which LibTorch lacks"},
    {.text = "out=... arguments don't support automatic differentiation",
     .why = "an out= beside a tensor with a gradient, which LibTorch refuses inside itself",
     .unless_both = true},
};

// Where a sum of ones stays where it is, in float16.
constexpr double kMostAddedIn16Bits = 2048;
constexpr const char* kUnsteady = "LibTorch's own value hangs on the last place of its operands, or on how they lie";
constexpr const char* kUnwrittenOut = "LibTorch's ihfft2 and ihfftn along one axis leave their out= as it was";

double precision(at::ScalarType dtype) {
  if (dtype == at::kHalf) return 8e-3;
  if (dtype == at::kBFloat16) return 5e-2;
  return c10::toRealValueType(dtype) == at::kFloat ? 3e-5 : 1e-10;
}

// The coarsest of what takes part.
double precision(const Program& program, const Outcome& outcome) {
  double coarsest = 0;
  const auto look = [&](at::ScalarType dtype) {
    if (at::isFloatingType(dtype) || at::isComplexType(dtype)) coarsest = std::max(coarsest, precision(dtype));
  };
  for (const Input& input : program.inputs) look(input.dtype);
  for (const Seen& seen : outcome.seen)
    if (seen.value.defined()) look(seen.value.scalar_type());
  return coarsest;
}

Tensor as_doubles(const Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.to(at::kComplexDouble)) : tensor.to(at::kDouble);
}

// The largest difference, in units of the largest finite number; infinite where one is a number and the other none. A
// complex number is none where either part is, as isnan() has it.
double distance(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  const Tensor no_number = a.isnan() & b.isnan();
  const Tensor x = as_doubles(a.masked_fill(no_number, 0)), y = as_doubles(b.masked_fill(no_number, 0));
  const Tensor finite = x.isfinite() & y.isfinite();
  if ((~finite & (x != y)).any().item<bool>()) return kInfinite;
  const double scale = std::max(1.0, y.abs().masked_fill(~finite, 0).max().item<double>());
  return (x - y).masked_fill(~finite, 0).abs().max().item<double>() / scale;
}

// `terms` times the value, of which infinite complex numbers keep their parts.
Tensor sum_of_equal(const Tensor& value, double terms) {
  return value.is_complex() ? at::view_as_complex(at::view_as_real(value) * terms) : value * terms;
}

bool has_axis_of_one(const Seen& seen) {
  return std::find(seen.sizes.begin(), seen.sizes.end(), 1) != seen.sizes.end();
}

class Comparison {
 public:
  Comparison(const Program& program, const Outcome& wanted)
      : program_(program), wanted_(wanted), facts_(program, wanted) {}

  const std::set<std::string>& passed_over() const { return passed_over_; }

  // `terms`: how many times the plain gradient is expected. `all`: whether all slots are seen, or only inputs.
  Verdict compare(const Outcome& seen, double terms, bool all, const std::string& where) {
    where_ = where;
    all_ = all;
    if (all) {
      if (Verdict verdict = compare_failures(seen); !verdict.kind.empty()) return verdict;
    } else if (seen.failure) {
      if (Verdict verdict = documented_refusal(*seen.failure); !verdict.kind.empty()) return verdict;
      return {"reading throws", where_ + seen.failure->text};
    }
    if (wanted_.failure) return {};
    for (const Seen& one : seen.seen) {
      const auto same = std::find_if(wanted_.seen.begin(), wanted_.seen.end(), [&](const Seen& other) {
        return other.slot == one.slot && other.is_gradient == one.is_gradient;
      });
      if (same == wanted_.seen.end()) return {"results", where_ + "a result that LibTorch does not have: " + name(one)};
      if (Verdict verdict = compare(one, *same, one.is_gradient ? terms : 1); !verdict.kind.empty()) return verdict;
    }
    if (all && seen.seen.size() != wanted_.seen.size()) return {"results", where_ + "fewer results than LibTorch has"};
    return {};
  }

 private:
  std::string name(const Seen& seen) const {
    return (seen.is_gradient ? "the gradient of " : "") + slot_name(program_, seen.slot);
  }

  // What is refused, and why that is right.
  Verdict pass_over(const std::string& why, const std::string& text = "") {
    passed_over_.insert(why);
    return {"invalid", text};
  }

  Verdict documented_refusal(const Failure& failure) {
    for (const char* text : kDocumentedRefusals)
      if (failure.text.find(text) != std::string::npos) return pass_over(str("refused: ", text), failure.text);
    return {};
  }

  Verdict compare_failures(const Outcome& seen) {
    const auto &a = seen.failure, &b = wanted_.failure;
    const auto is_call = [&](const Failure& failure) { return failure.statement < program_.statements.size(); };
    if (a && a->text.find("new_fn INTERNAL ASSERT") != std::string::npos)
      return pass_over("LibTorch's view that is made again by its op, of a tensor that was detached since", a->text);
    if (a && (!b || a->statement < b->statement)) {
      if (Verdict verdict = documented_refusal(*a); !verdict.kind.empty()) return verdict;
      const std::string at = is_call(*a) ? statement_name(program_.statements[a->statement]) : "reading";
      for (const KnownError& known : kErrorsOfMeshes)
        if (at.rfind(known.op, 0) == 0 && a->text.find(known.text) != std::string::npos &&
            (!known.of_no_elements || (is_call(*a) && facts_.is_of_no_elements(program_.statements[a->statement]))))
          return pass_over(known.why, a->text);
      if (at.rfind("binary_cross_entropy", 0) == 0 && facts_.has_value_of_no_elements() &&
          a->text.find("does not fit an input of sizes") != std::string::npos)
        return pass_over("a binary cross entropy with targets of no elements: the mean of what LibTorch never wrote",
                         a->text);
      if (wanted_.writes_overlap && a->text.find("refer to a single memory location") != std::string::npos)
        return pass_over("operands that share elements, which LibTorch cannot tell where they have gaps", a->text);
      if (at == "kron" && facts_.resizes() && a->text.find("view size is not compatible") != std::string::npos)
        return pass_over("strides beside an out= argument, of which LibTorch's kron takes no transposed ones", a->text);
      if (facts_.calls_product() && a->text.find("has been modified by an inplace operation") != std::string::npos)
        return pass_over("what a product keeps for its gradient: LibTorch's may be copies", a->text);
      return {"throws", where_ + at + ": " + a->text};
    }
    if (b && b->text.find("view size is not compatible") != std::string::npos && is_call(*b) &&
        statement_name(program_.statements[b->statement]).rfind("view", 0) != 0)
      return pass_over("LibTorch's kernel takes no view inside itself", b->text);
    for (const KnownError& known : kErrorsOfLibTorch)
      if (b && !(a && known.unless_both) && b->text.find(known.text) != std::string::npos &&
          (!*known.op || (is_call(*b) && statement_name(program_.statements[b->statement]).rfind(known.op, 0) == 0)))
        return pass_over(known.why, b->text);
    if (b && (!a || b->statement < a->statement))
      return {"no error", where_ + statement_name(program_.statements[b->statement]) +
                              " gives no error; LibTorch's is: " + b->text};
    if (a && !a->is_torch && !a->is_refusal && b->is_torch)
      return {"wrong error", where_ + statement_name(program_.statements[a->statement]) + ": " + a->text +
                                 "; LibTorch's is: " + b->text};
    if (a && a->text.find("INTERNAL ASSERT") != std::string::npos &&
        b->text.find("INTERNAL ASSERT") == std::string::npos)
      return {"wrong error", where_ + a->text + "; LibTorch's is: " + b->text};
    return {};
  }

  Verdict compare(const Seen& seen, const Seen& wanted, double terms) {
    const std::string what = where_ + name(seen);
    const std::string kind = seen.is_gradient ? "gradient" : "value";
    if (facts_.is_left_to_backward(seen.slot)) {
      if (seen.sizes != wanted.sizes) passed_over_.insert("what embedding_bag keeps for its own backward pass");
      return {};
    }
    if (seen.value.defined() != wanted.value.defined())
      return {kind,
              what + (seen.value.defined() ? " is defined, LibTorch's is not" : " is undefined, LibTorch's is not")};
    if (!seen.value.defined()) return {};
    if (seen.dtype != wanted.dtype || seen.value.scalar_type() != wanted.dtype)
      return {"dtype", str(what, " is ", c10::toString(seen.dtype), ", not ", c10::toString(wanted.dtype))};
    if (seen.sizes != wanted.sizes && facts_.transforms_into()) return passed_over_.insert(kUnwrittenOut), Verdict{};
    if (seen.sizes != wanted.sizes && has_unsteady_sizes(wanted)) return passed_over_.insert(kUnsteady), Verdict{};
    if (seen.sizes != wanted.sizes || seen.value.sizes() != at::IntArrayRef(wanted.sizes))
      return {"sizes", what + " has sizes " + str_list(seen.sizes) +
                           (seen.value.sizes() == at::IntArrayRef(seen.sizes)
                                ? ""
                                : ", gathered " + str_list(seen.value.sizes().vec())) +
                           ", not " + str_list(wanted.sizes)};
    if (all_ && seen.same_as != wanted.same_as && wanted.value.numel() == 0 && facts_.calls_dropout())
      passed_over_.insert(kOperandOfDropout);
    else if (all_ && seen.same_as != wanted.same_as)
      return {"identity", str(what, " is the same tensor as ", slot_name(program_, seen.same_as), ", not ",
                              slot_name(program_, wanted.same_as))};
    const bool is_some_gradient =
        seen.is_gradient || facts_.is_result_of_gradient(seen.slot) || facts_.is_read_gradient(seen.slot);
    const Tensor expected = terms == 1 ? wanted.value : sum_of_equal(wanted.value, terms);
    if (const double far = distance(seen.value, expected); far > precision(program_, wanted_)) {
      if (far <= 8 * unsteadiness(wanted))
        passed_over_.insert(kUnsteady);
      else if (facts_.takes_median_of_expanded())
        passed_over_.insert("LibTorch's median along an axis of expand() reads beyond the memory");
      else if (wanted_.writes_overlap)
        passed_over_.insert("a write to elements that share a place, whose order LibTorch leaves open");
      else if (is_value_of_wide(seen, wanted, terms))
        passed_over_.insert(
            "LibTorch's kernel adds in 16 or 32 bits; the mesh's value is that of 64, or as near to it");
      else if (convolves_beyond_images(wanted))
        passed_over_.insert("a convolution of 16 bits for which LibTorch's result is far from that of 64");
      else if (is_some_gradient && convolves_in_16_bits() && facts_.most_elements() > kMostAddedIn16Bits)
        passed_over_.insert(
            "gradients of a large convolution of 16 bits: LibTorch adds a dilated one's image after image, in these");
      else if (facts_.is_bits_of_a_result(seen.slot))
        passed_over_.insert("bits of a number that was computed: the last ones, and a zero's sign, hang on the kernel");
      else if (facts_.negates() && wanted.value.is_complex() &&
               distance(seen.value.abs(), expected.abs()) <= precision(program_, wanted_))
        passed_over_.insert("the side of a branch cut, for the sign that LibTorch's negation gives complex zeros");
      else if (far <= precision(at::kFloat) && facts_.calls_logsumexp_into())
        passed_over_.insert("LibTorch's logsumexp adds in the precision of its out=");
      else if (is_some_gradient && facts_.hooks_written_product())
        passed_over_.insert("a hook of a product that is then written: LibTorch's may be a view, and forget it");
      else if (facts_.transforms_into())
        passed_over_.insert(kUnwrittenOut);
      else if (seen.is_gradient && facts_.goes_back_behind_a_step())
        passed_over_.insert(
            "a backward pass through what an optimizer has written since, past LibTorch's count of versions");
      else if (is_some_gradient && facts_.writes_behind_kron())
        passed_over_.insert("a gradient by what was written since kron read it, past LibTorch's count of versions");
      else if (is_some_gradient && facts_.takes_elements_around_a_view())
        passed_over_.insert("the gradient of elements that as_strided takes from around a view, which a write changes");
      else if (facts_.hangs_on_a_nan())
        passed_over_.insert(
            "what LibTorch makes of a NaN by its place: in polynomials, signs, and gradients of relu6 and its kin");
      else if (seen.is_gradient && far <= precision(at::kFloat) * std::sqrt(facts_.most_elements()) &&
               facts_.calls_norm())
        passed_over_.insert("the gradient of a norm's weight, a sum over all elements that LibTorch takes in 64 bits");
      else if (std::isinf(far) && facts_.takes_complex_deviation_into())
        passed_over_.insert("LibTorch's complex root of a NaN, where std has a complex out=");
      else if (std::isinf(far) && facts_.sums_overflow(expected))
        passed_over_.insert("the mean of what replicas wrote, whose sum is no number of its type");
      else if (std::isinf(far) && facts_.leaves_infinities_open())
        passed_over_.insert(
            "infinities that LibTorch makes of finite numbers or tiny pivots, or treats by where they come");
      else
        return {kind,
                str(what, " differs by ", far, ": ", values_text(seen.value), " and not ", values_text(expected))};
    }
    // What a replica asked of requires_grad_() is its own; of a tensor that replicas share, so is the graph of a write.
    const bool same_need = seen.requires_grad == wanted.requires_grad;
    if (!same_need && expected.numel() == 0 && facts_.calls_dropout())
      passed_over_.insert(kOperandOfDropout);
    else if (!same_need && facts_.transforms_into())
      passed_over_.insert(kUnwrittenOut);
    else if (!same_need && facts_.is_result_of_gradient(seen.slot) && facts_.has_value_of_no_elements())
      passed_over_.insert("the graph of a gradient by a view of no elements, which LibTorch's as_strided ends");
    else if (all_ && !same_need && !seen.is_gradient && !facts_.is_shared(seen.slot) && !facts_.is_shared(seen.same_as))
      return {"requires_grad", str(what, " requires a gradient: ", seen.requires_grad, ", not ", wanted.requires_grad)};
    if (seen.is_gradient || strides_that_count(seen) == strides_that_count(wanted)) return {};
    if (!test_devices_are_cpus())
      passed_over_.insert("strides on GPUs, which its kernels choose");
    else if (facts_.resizes())
      passed_over_.insert("strides beside an out= argument");
    else if (facts_.is_result_of_gradient(seen.slot))
      passed_over_.insert("strides of a result of autograd::grad");
    else if (facts_.calls([](const std::string& op) { return op.rfind("conv", 0) == 0; }) &&
             at::isComplexType(wanted.dtype))
      passed_over_.insert("strides of complex convolutions, which LibTorch composes of real ones");
    else if (facts_.calls([](const std::string& op) { return op.find("fft") != std::string::npos; }) &&
             has_axis_of_one(wanted))
      passed_over_.insert("strides of transforms, sorted by those of axes of one element too");
    else if (facts_.calls([](const std::string& op) {
               return op.rfind("roll", 0) == 0 || op == "fft_fftshift" || op == "fft_ifftshift";
             }))
      passed_over_.insert("strides of roll, which hang on where the memory has gaps");
    else if (facts_.calls([](const std::string& op) { return op == "copy" || op == "_foreach_copy"; }))
      passed_over_.insert("strides of copy and _foreach_copy, which LibTorch makes with the memory around a view");
    else if (facts_.calls([](const std::string& op) { return op == "einsum"; }) && facts_.mixes_types())
      passed_over_.insert("strides of an einsum of several types, which LibTorch composes of other calls");
    else
      return {"strides", what + " of sizes " + str_list(seen.sizes) + " has strides " + str_list(seen.strides) +
                             ", not " + str_list(wanted.strides)};
    return {};
  }

  // What LibTorch computes in 64 bits; undefined where that has other sizes.
  Tensor wide_value(const Seen& wanted) const {
    for (const Seen& wide : run_plain(program_, {.wide = true}).seen)
      if (wide.slot == wanted.slot && wide.is_gradient == wanted.is_gradient && wide.value.defined() &&
          wide.value.sizes() == wanted.value.sizes())
        return wide.value;
    return {};
  }

  // Whether the value is what LibTorch computes in 64 bits, where its own is not; or as near to it as that; of 16 bits,
  // nearer.
  bool is_value_of_wide(const Seen& seen, const Seen& wanted, double terms) const {
    const Tensor wide = wide_value(wanted);
    if (!wide.defined()) return false;
    const double tolerance = std::max(precision(wanted.dtype), precision(at::kFloat));  // of what is made of integers
    const Tensor beyond = (wanted.value.isinf() & (seen.value == wanted.value)) |       // what 32 bits do not hold
                          (wanted.value.isnan() & seen.value.isnan());
    const Tensor value = at::where(beyond, wanted.value, wide);
    const double far = distance(seen.value, sum_of_equal(value, terms)), of_torch = distance(wanted.value, value);
    // What small differences of large numbers leave is as far from it in LibTorch, by the order of its sums.
    const double factor = at::isReducedFloatingType(wanted.dtype) ? 1 : 4;
    const bool is_as_near = !at::isIntegralType(wanted.dtype, /*includeBool=*/true) && factor * of_torch > tolerance &&
                            far <= factor * of_torch;
    return (far <= tolerance && of_torch > precision(at::kDouble)) || is_as_near;
  }

  // oneDNN's kernels for some sizes add what lies behind the images.
  bool convolves_beyond_images(const Seen& wanted) const {
    if (!at::isReducedFloatingType(wanted.dtype) || !convolves_in_16_bits()) return false;
    const Tensor wide = wide_value(wanted);
    return wide.defined() && distance(wanted.value, wide) > 4 * precision(wanted.dtype);
  }

  bool convolves_in_16_bits() const {
    return precision(program_, wanted_) > precision(at::kFloat) &&
           facts_.calls([](const std::string& op) { return op.find("conv") != std::string::npos; });
  }

  // LibTorch's own results where inputs change in their last place, or lie otherwise, or zeros have other signs.
  const std::vector<Outcome>& varied() {
    if (!varied_.empty()) return varied_;
    varied_.push_back(run_plain(program_, {.row_major = true}));
    varied_.push_back(run_plain(program_, {.other_zeros = true}));
    for (uint64_t seed = 1; seed <= 4; ++seed) varied_.push_back(run_plain(program_, {.noise = 2, .seed = seed}));
    return varied_;
  }
  // Those of one slot, as far as there are any.
  std::vector<Tensor> varied(const Seen& wanted) {
    std::vector<Tensor> values;
    for (const Outcome& outcome : varied())
      for (const Seen& other : outcome.seen)
        if (other.slot == wanted.slot && other.is_gradient == wanted.is_gradient && other.value.defined())
          values.push_back(other.value);
    return values;
  }
  bool has_unsteady_sizes(const Seen& wanted) {
    return std::ranges::any_of(varied(wanted), [&](const Tensor& value) { return value.sizes() != wanted.sizes; });
  }
  double unsteadiness(const Seen& wanted) {
    double most = 0;
    for (const Tensor& value : varied(wanted))
      most = std::max(most, value.sizes() == wanted.sizes ? distance(value, wanted.value) : kInfinite);
    return most;
  }

  const Program& program_;
  const Outcome& wanted_;
  const Facts facts_;
  std::string where_;
  bool all_ = true;
  std::vector<Outcome> varied_;
  std::set<std::string> passed_over_;
};

}  // namespace

namespace {

Verdict compare_places(const Program& program, Comparison& comparison, const Outcome& wanted) {
  if (program.place != Place::replicas) return comparison.compare(run_on_mesh(program), 1, true, "");
  const ReplicaOutcomes outcomes = run_in_replicas(program);
  for (size_t r = 0; r < outcomes.replicas.size(); ++r)
    if (Verdict verdict = comparison.compare(outcomes.replicas[r], 1, true, str("replica ", r, ": "));
        !verdict.kind.empty())
      return verdict;
  if (wanted.failure) return {};
  return comparison.compare(outcomes.after, static_cast<double>(program.num_devices()), false, "after the run: ");
}

}  // namespace

Verdict check(const Program& program, const std::function<void()>& note) {
  try {
    if (is_recorded(program.place)) {
      note();
      return check_recorded(program);
    }
    const Outcome wanted = run_plain(program);
    note();
    Comparison comparison(program, wanted);
    Verdict verdict = compare_places(program, comparison, wanted);
    verdict.passed_over = comparison.passed_over();
    return verdict;
  } catch (const Invalid&) {
    return {"invalid", ""};
  } catch (const c10::Error& error) {
    return {"throws", std::string("outside of the program: ") + error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {"throws", std::string("outside of the program: ") + error.what()};
  }
}

}  // namespace tutti::fuzz
