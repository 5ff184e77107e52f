// Ops that return their operand itself: what a program does to the result in place, it does to the operand.
#include <gmock/gmock.h>

#include "like_one_device.h"
#include "tests/support/error_of.h"
#include "tests/support/three_replicas.h"

namespace tutti::rules {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::Tensor;

struct Call {
  const char* name;
  TensorFunction of;
};

// Of a matrix or a vector of real numbers.
std::vector<Call> calls() {
  return {
      {"to its type", [](const Tensor& x) { return x.to(x.scalar_type()); }},
      {"to its options' type", [](const Tensor& x) { return x.to(torch::TensorOptions().dtype(x.dtype())); }},
      {"to another's type", [](const Tensor& x) { return x.to(x * 2); }},
      {"a copy of its type", [](const Tensor& x) { return x.to(x.scalar_type(), false, /*copy=*/true); }},
      {"type_as", [](const Tensor& x) { return x.type_as(x * 2); }},
      {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
      {"contiguous, as an op",
       [](const Tensor& x) { return at::_ops::contiguous::call(x, at::MemoryFormat::Contiguous); }},
      {"broadcast_tensors of one", [](const Tensor& x) { return torch::broadcast_tensors({x})[0]; }},
      {"broadcast_tensors of two",
       [](const Tensor& x) {
         return torch::broadcast_tensors({x * 2, x})[1];
       }},
      {"expand_as", [](const Tensor& x) { return x.expand_as(x); }},
      {"view_as", [](const Tensor& x) { return x.view_as(x); }},
      {"alias", [](const Tensor& x) { return x.alias(); }},
      {"detach", [](const Tensor& x) { return x.detach(); }},
      {"reshape", [](const Tensor& x) { return x.reshape(x.sizes()); }},
      {"ravel", [](const Tensor& x) { return x.ravel(); }},
      {"flatten", [](const Tensor& x) { return x.flatten(); }},
      {"flatten of one axis", [](const Tensor& x) { return x.flatten(0, 0); }},
      {"squeeze", [](const Tensor& x) { return x.squeeze(); }},
      {"movedim", [](const Tensor& x) { return x.movedim(0, 0); }},
      {"conj", [](const Tensor& x) { return x.conj(); }},
      {"conj_physical", [](const Tensor& x) { return x.conj_physical(); }},
      {"resolve_conj", [](const Tensor& x) { return x.resolve_conj(); }},
      {"resolve_neg", [](const Tensor& x) { return x.resolve_neg(); }},
      {"real", [](const Tensor& x) { return torch::real(x); }},
      {"positive", [](const Tensor& x) { return x.positive(); }},
      {"atleast_1d", [](const Tensor& x) { return torch::atleast_1d(x); }},
      {"atleast_1d of several",
       [](const Tensor& x) {
         return torch::atleast_1d({x, x})[1];
       }},
      {"atleast_2d", [](const Tensor& x) { return torch::atleast_2d(x); }},
      {"dropout at rest", [](const Tensor& x) { return torch::dropout(x, 0.5, /*train=*/false); }},
      {"alpha_dropout at rest", [](const Tensor& x) { return torch::alpha_dropout(x, 0.5, /*train=*/false); }},
      {"feature_dropout of nothing", [](const Tensor& x) { return torch::feature_dropout(x, 0, /*train=*/true); }},
      {"nan_to_num", [](const Tensor& x) { return x.nan_to_num(); }},
      {"mul_", [](const Tensor& x) { return at::_ops::mul__Tensor::call(const_cast<Tensor&>(x), torch::ones({})); }},
  };
}

const Tensor& matrix() {
  static const Tensor value = torch::arange(12.0).view({3, 4});
  return value;
}

bool returns_operand(const Call& call, const Tensor& x) {
  const torch::NoGradGuard guard;
  return call.of(x).is_same(x);
}

class ReturnedOperands : public ThreeReplicas {
 protected:
  Tensor variable(bool requires_grad = true, const Tensor& value = matrix()) {
    return strategy.build([&] { return torch::zeros(value.sizes()).copy_(value).set_requires_grad(requires_grad); });
  }
};

TEST_F(ReturnedOperands, AreTheMeshTensorWhereLibTorchReturnsThePlainOne) {
  int returned = 0;
  for (const Call& call : calls())
    for (const Tensor& plain : {matrix().clone(), matrix()[1].clone()}) {
      const bool expected = returns_operand(call, plain);
      returned += expected;
      for (const bool is_variable : {true, false}) {
        const Tensor x = variable(is_variable, plain);
        strategy.run([&] { EXPECT_EQ(returns_operand(call, x), expected) << call.name << ", in a replica"; });
      }
      for (const bool merge : {true, false}) {
        const Tensor x = distribute_tensor(plain, Layout::replicated(line_of(3, merge), plain.dim()));
        EXPECT_EQ(returns_operand(call, x), expected) << call.name << (merge ? ", merged" : ", separate");
      }
    }
  EXPECT_GT(returned, 25);
}

TEST_F(ReturnedOperands, AreAsMuchOfOneShapeForAllReplicasAsTheVariable) {
  const Tensor w = variable();
  for (const Call& call : calls()) {
    if (!returns_operand(call, matrix().clone())) continue;
    const auto turn = [&] {
      strategy.run([&] {
        const torch::NoGradGuard guard;
        call.of(w).t_();
      });
    };
    EXPECT_THAT(error_of(turn), AllOf(HasSubstr("failed_precondition"), HasSubstr("changes the shape"))) << call.name;
    strategy.run([&] { EXPECT_THAT((w * 1).sizes(), ElementsAre(3, 4)) << call.name; });
  }
}

TEST_F(ReturnedOperands, HaveTheHooksAndTheFlagsOfTheVariable) {
  const Tensor w = variable();
  strategy.run([&] {
    w.to(torch::kFloat).register_hook([](const Tensor& gradient) { return gradient * 2; });
    torch::broadcast_tensors({w})[0].retain_grad();
    (torch::atleast_1d(w) * 3).sum().backward();
    EXPECT_TRUE(torch::equal(w.positive().grad(), torch::full({3, 4}, 6.0f)));
    w.to(torch::kFloat).requires_grad_(false);
    EXPECT_FALSE(w.requires_grad());
  });
  EXPECT_FALSE(w.requires_grad());
  const Tensor constant = variable(/*requires_grad=*/false);
  EXPECT_THAT(error_of([&] { strategy.run([&] { constant.to(torch::kFloat).requires_grad_(); }); }),
              HasSubstr("a constant for all of them"));
}

TEST_F(ReturnedOperands, ArePlainWhereTheProgramNamesADevice) {
  const Tensor w = variable();
  const std::vector<Call> to_device{{"cpu", [](const Tensor& x) { return x.cpu(); }},
                                    {"to", [](const Tensor& x) { return x.to(torch::kCPU); }},
                                    {"to options", [](const Tensor& x) { return x.to(x.options()); }}};
  for (const Call& call : to_device) {
    strategy.run([&] {
      Tensor taken;
      {
        const torch::NoGradGuard guard;
        taken = call.of(w);
        taken.data_ptr<float>()[5] += 1;
        call.of(w).t_();
      }
      EXPECT_EQ((w * 1)[1][1].item<float>(), taken[1][1].item<float>()) << call.name;
      EXPECT_THAT((w * 1).sizes(), ElementsAre(3, 4)) << call.name;
      w.mutable_grad().reset();
      (taken * 3).sum().backward();
      EXPECT_TRUE(torch::equal(w.grad(), torch::full({3, 4}, 3.0f))) << call.name;
    });
  }
}

TEST_F(ReturnedOperands, ThatAProgramGathersHaveAShapeOfTheirOwn) {
  const std::vector<Call> gathered{{"cpu", [](const Tensor& x) { return x.cpu(); }},
                                   {"gather", [](const Tensor& x) { return gather(x); }}};
  for (const Call& call : gathered)
    for (const std::vector<std::string>& axes : {std::vector<std::string>{"-", "-"}, {"x", "-"}})
      for (const bool merge : {true, false}) {
        const Tensor x = distribute_tensor(matrix(), layout_on(line_of(3, merge), axes));
        call.of(x).t_();
        EXPECT_THAT((x + 1).sizes(), ElementsAre(3, 4)) << call.name;
        EXPECT_TRUE(torch::equal(gather(x), matrix())) << call.name;
      }
}

TEST_F(ReturnedOperands, ThatAreDetachedInPlaceNeedNoGradientAnyMore) {
  const Tensor w = variable();
  strategy.run([&] {
    w.detach_();
    EXPECT_FALSE(w.requires_grad());
    EXPECT_FALSE((w * 2).requires_grad());
  });
  EXPECT_FALSE(w.requires_grad());
  w.requires_grad_();
  strategy.run([&] { (w * 2).sum().backward(); });
  EXPECT_TRUE(torch::equal(gather(w.grad()), torch::full({3, 4}, 6.0f)));
}

TEST(NativeDropout, OfNoElementsGivesItsInput) {
  const torch::NoGradGuard no_grad;
  for (const bool merge : {true, false}) {
    const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = merge});
    const Tensor x = distribute_tensor(torch::zeros({0}), Layout({"x"}, mesh));
    EXPECT_TRUE(std::get<0>(torch::native_dropout(x, 0.5, {})).is_same(x));
  }
}

}  // namespace
}  // namespace tutti::rules
