// Complex numbers, float16, autocast and lengths of zero: as of one device.

#include <gmock/gmock.h>

#include "like_one_device.h"
#include "tests/support/autocast.h"
#include "tests/support/error_of.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

Tensor random_complex(at::IntArrayRef sizes) { return torch::complex(torch::rand(sizes), torch::rand(sizes)); }

TEST(ComplexNumbers, HaveConjugatedGradientsOfProducts) {
  const Tensor a = random_complex({2, 4, 3}), b = random_complex({2, 3, 5}), c = random_complex({3, 5});
  const auto gradient = [](const TensorFunction& f) {
    return [f](const Tensor& t) {
      const Tensor input = t.detach().requires_grad_();
      f(input).abs().sum().backward();
      return input.grad();
    };
  };
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "x"}}) {
    expect_like_one_device(a, axes, gradient([&](const Tensor& x) { return x.matmul(b); }), 2, 1e-4);
    expect_like_one_device(a, axes, gradient([&](const Tensor& x) {
                             return torch::einsum("bik,bkj->bij", {x, b});
                           }),
                           2, 1e-4);
    expect_like_one_device(a, axes, gradient([&](const Tensor& x) { return torch::linear(x, c.t()); }), 2, 1e-4);
  }
}

TEST(ComplexNumbers, ShowTheirPartsAlsoConjugated) {
  const Tensor z = torch::complex(torch::ones({4}), torch::arange(4.0f));
  for (const char* axis : {"x", "-"}) {
    const auto same = [&](const TensorFunction& f) { expect_like_one_device(z, {axis}, f); };
    same([](const Tensor& t) { return torch::real(t.conj()); });
    same([](const Tensor& t) { return torch::imag(t.conj()); });
    same([](const Tensor& t) { return torch::view_as_real(t.conj().resolve_conj()); });
    same([](const Tensor& t) { return torch::real(t.conj().clone()); });
    same([](const Tensor& t) { return torch::imag(t.conj() * t + t.conj()); });
    same([](const Tensor& t) { return t.conj().sum(); });
    same([](const Tensor& t) { return t.conj().slice(0, 1, 3); });
    same([](const Tensor& t) {
      Tensor written = t.clone();
      torch::imag(written.conj()).mul_(2);
      return written;
    });
    const c10::InferenceMode inference;
    same([](const Tensor& t) { return torch::imag(t.conj()); });
  }
}

TEST(SumBuffers, AddsWhatAConjugatedValueIsNotWhatLiesInMemory) {
  const Tensor z = torch::complex(torch::ones({2}), torch::full({2}, 5.0f));
  for (const Tensor& value : {z.conj(), torch::imag(z.conj())}) {
    BufferSum sum{.values = {value, value}};
    sum_buffers({&sum, 1});
    EXPECT_TRUE(torch::allclose(sum.result, value + value)) << sum.result;
  }
}

TEST(HalfPrecision, IsSummedInFloat32) {
  const Tensor ones = torch::ones({100000}, torch::kHalf), large = torch::full({1000}, 300, torch::kHalf);
  const Tensor far = torch::arange(1000).remainder(2).mul(600).to(torch::kHalf);
  const auto same = [](const Tensor& x, const std::vector<std::string>& axes, const TensorFunction& f) {
    expect_like_one_device(x, axes, f, 2, 2e-3);
  };
  same(ones, kCut, [](const Tensor& t) { return t.mean(); });
  same(ones, kCut, [](const Tensor& t) { return torch::mse_loss(t, torch::zeros_like(t)); });
  same(ones, kCut, [](const Tensor& t) { return torch::smooth_l1_loss(t, torch::zeros_like(t)); });
  same(large, kCut, [](const Tensor& t) { return t.norm(); });
  same(large, kCut, [](const Tensor& t) { return torch::linalg_vector_norm(t, 2); });
  same(large, kCut, [](const Tensor& t) { return t.logsumexp(0); });
  same(far, kCut, [](const Tensor& t) { return t.std(); });
  same(far.view({1, 1000}), kColumnsCut, [](const Tensor& t) { return torch::layer_norm(t, {1000}); });
  same(far.view({1000, 1}), kRowsCut,
       [](const Tensor& t) { return torch::batch_norm(t, {}, {}, {}, {}, true, 0.1, 1e-5, false); });
  const Tensor opposed = torch::cat({torch::full({2}, 40000, torch::kHalf), torch::full({2}, -40000, torch::kHalf)});
  same(opposed, kCut, [](const Tensor& t) { return t.sum(); });
  same(opposed.view({4, 1}), kRowsCut, [](const Tensor& t) { return t.sum(0, true); });
  same(opposed, kCut, [](const Tensor& t) { return t.nansum(); });
  const Tensor with_a_zero = torch::tensor({300, 0, 300, 300}, torch::kHalf);  // of float16, 0 times infinity
  same(with_a_zero, kCut, [](const Tensor& t) { return t.prod(); });
  same(with_a_zero.view({4, 1}), kRowsCut, [](const Tensor& t) { return t.prod(0, /*keepdim=*/true); });
}

// The largest error, of double precision.
double largest_error(const TensorFunction& f, const Tensor& x, const Tensor& given) {
  return (gather(f(given)).to(torch::kDouble) - f(x.to(torch::kDouble))).abs().max().item<double>();
}

TEST(HalfPrecision, LosesNoMoreInPieces) {
  torch::manual_seed(1);
  const Tensor x = (torch::randn({64, 1024}) * 3 + 10).to(torch::kBFloat16);
  const Mesh mesh = line_of(4, /*merge=*/false);
  const auto check = [&](const char* name, const std::vector<std::string>& axes, const TensorFunction& f) {
    EXPECT_LE(largest_error(f, x, distribute_tensor(x, layout_on(mesh, axes))), 1.1 * largest_error(f, x, x) + 1e-6)
        << name;
  };
  check("var", kColumnsCut, [](const Tensor& t) { return t.var(1); });
  check("std", kColumnsCut, [](const Tensor& t) { return t.std(1); });
  check("layer_norm", kColumnsCut, [](const Tensor& t) { return torch::layer_norm(t, {1024}); });
  check("batch_norm", kRowsCut,
        [](const Tensor& t) { return torch::batch_norm(t, {}, {}, {}, {}, true, 0.1, 1e-5, false); });
  check("softmax", kColumnsCut, [](const Tensor& t) { return t.softmax(1); });
  check("log_softmax", kColumnsCut, [](const Tensor& t) { return t.log_softmax(1); });
  check("norm", kColumnsCut, [](const Tensor& t) { return t.norm(2, 1); });
  check("logsumexp", kColumnsCut, [](const Tensor& t) { return t.logsumexp(1); });
  check("mean", kColumnsCut, [](const Tensor& t) { return t.mean(1); });
  check("sum", kColumnsCut, [](const Tensor& t) { return t.sum(1); });
}

TEST(HalfPrecision, HasItsOwnTypeInGradients) {
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const auto gradient = [](const TensorFunction& f) {
      return [f](const Tensor& t) {
        const Tensor input = t.detach().requires_grad_();
        const Tensor y = f(input);
        (y * torch::linspace(0, 1, y.numel()).view_as(y)).sum().backward();
        return input.grad();
      };
    };
    const Tensor x = torch::rand({4, 6}).to(type);
    for (const auto& axes : {kRowsCut, kColumnsCut}) {
      const auto same = [&](const TensorFunction& f) { expect_like_one_device(x, axes, gradient(f), 2, 2e-2); };
      same([](const Tensor& t) { return t.softmax(1); });
      same([](const Tensor& t) { return t.log_softmax(0); });
      same([](const Tensor& t) { return torch::layer_norm(t, {6}); });
      same([](const Tensor& t) { return torch::batch_norm(t, {}, {}, {}, {}, true, 0.1, 1e-5, false); });
      same([](const Tensor& t) { return torch::mse_loss(t, torch::zeros_like(t)); });
    }
  }
}

TEST(Integers, ThatWereComparedInPlaceAreReadAsOtherTypes) {
  const Tensor x = torch::arange(4, torch::kLong);
  expect_like_one_device(x, kCut, [](const Tensor& t) {
    return t.clone().greater_(torch::ones({4}).requires_grad_()).view(torch::kDouble);
  });
}

TEST(ComplexNumbers, OfWhichOneIsSelectedHaveNoGradient) {
  const Tensor x = torch::full({}, c10::complex<double>(1, 2), torch::kComplexDouble);
  for (const bool needs_gradient : {false, true})
    expect_like_one_device(
        x, {}, [&](const Tensor& t) { return std::get<0>(t.detach().requires_grad_(needs_gradient).mode(0)); });
}

TEST(Losses, OfATargetThatBroadcastsAreMeansOverAllElements) {
  const Tensor target = torch::ones({4, 3});
  const auto same = [&](const TensorFunction& f) {
    expect_like_one_device(torch::zeros({4, 1}), kRowsCut, f);
    expect_like_one_device(torch::rand({1, 3}), kColumnsCut, f);
  };
  same([&](const Tensor& t) { return torch::mse_loss(t, target); });
  same([&](const Tensor& t) { return torch::mse_loss(target, t); });
  same([&](const Tensor& t) { return torch::smooth_l1_loss(t, target); });
  same([&](const Tensor& t) { return torch::huber_loss(t, target); });
  same([&](const Tensor& t) { return torch::soft_margin_loss(t, target); });
  same([&](const Tensor& t) { return torch::binary_cross_entropy_with_logits(t, target); });
  same([&](const Tensor& t) {
    const Tensor input = t.detach().requires_grad_();
    torch::mse_loss(input, target).backward();
    return input.grad();
  });
}

TEST(Autocast, OfEinsumDoesNotDependOnTheLayout) {
  const Tensor b = torch::rand({2, 3, 5}), row = torch::rand({4});
  const Autocast autocast(at::kCPU);
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "x"}, {"-", "-", "-"}}) {
    const auto same = [&](const TensorFunction& f) {
      expect_like_one_device(torch::rand({2, 4, 3}), axes, f, 2, 2e-2);
    };
    same([&](const Tensor& t) { return torch::einsum("bik,bkj->bij", {t, b}); });
    same([&](const Tensor& t) { return torch::einsum("bik,i->bik", {t, row}); });
    same([&](const Tensor& t) { return t.matmul(b); });
  }
}

TEST(ZeroLengths, HaveTheWholesResultsAndGradients) {
  const auto gradient_of_sorted = [](const Tensor& t) {
    const Tensor input = t.detach().requires_grad_();
    std::get<0>(input.sort()).sum().backward();
    return input.grad();
  };
  expect_like_one_device(torch::zeros({0}), kCut, gradient_of_sorted);
  expect_like_one_device(torch::zeros({3, 0}), kRowsCut, gradient_of_sorted);
  expect_like_one_device(torch::rand({4}), kCut, [](const Tensor& t) {
    const Tensor input = t.detach().requires_grad_();
    std::get<0>(input.topk(0)).sum().backward();
    return input.grad();
  });
  for (const auto& sizes : {std::vector<int64_t>{0, 2}, {2, 0}}) {
    expect_like_one_device(torch::zeros(sizes), kRowsCut, [](const Tensor& t) { return t.logsumexp(0); });
    expect_like_one_device(torch::zeros(sizes), kRowsCut, [](const Tensor& t) { return t.softmax(0); });
    expect_like_one_device(torch::zeros(sizes), kRowsCut, [](const Tensor& t) { return t.log_softmax(0); });
    expect_like_one_device(torch::zeros(sizes), kRowsCut, [](const Tensor& t) { return t.var({0}, at::Scalar(-1)); });
  }
}

TEST(MaxPool1d, NeedsNoGradient) {
  const torch::NoGradGuard no_grad;
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "-", "-"}})
    expect_like_one_device(torch::rand({2, 2, 4}), axes, [](const Tensor& t) { return torch::max_pool1d(t, 2); });
  const c10::InferenceMode inference;
  expect_like_one_device(torch::rand({2, 2, 4}), {"x", "-", "-"},
                         [](const Tensor& t) { return torch::max_pool1d(t, 2); });
}

TEST(MaxPool1d, IsContiguousWithoutAGradient) {
  const Layout layout = layout_on(line_of(1, /*merge=*/false), {"-", "-", "-"});
  for (const bool requires_grad : {false, true}) {
    const Tensor x = torch::rand({1, 5, 2}).transpose(1, 2).set_requires_grad(requires_grad);
    const Tensor on_mesh = distribute_tensor(x.detach(), layout).set_requires_grad(requires_grad);
    EXPECT_EQ(torch::max_pool1d(on_mesh, 2).strides(), torch::max_pool1d(x, 2).strides());
  }
}

TEST(MaxPool1d, IsNoViewWithoutAGradient) {
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "-", "-"}})
    expect_like_one_device(torch::rand({2, 2, 4}), axes,
                           [](const Tensor& t) { return torch::max_pool1d(t, 2).detach_(); });
}

TEST(MaxPool1d, TakesNoIntegers) {
  const torch::NoGradGuard no_grad;
  expect_like_one_device(torch::ones({2, 2, 4}, torch::kInt), {"x", "-", "-"},
                         [](const Tensor& t) { return torch::max_pool1d(t, 2); });
}

// Each part of the axis would lose what is smaller than a place of its own sum, or be infinite.
TEST(Float16, ProductsOverAShardedAxisAddInFloat32) {
  const int64_t length = 4096;
  Tensor row = torch::full({1, length}, 0.25, torch::kHalf);
  row[0][0] = 2048;
  row[0][length / 2] = -2048;
  Tensor large = torch::full({1, length}, 64, torch::kHalf);
  large.slice(1, length / 2) *= -1;
  const Tensor column = torch::ones({length, 1}, torch::kHalf), stack = torch::ones({1, length, 1}, torch::kHalf);
  const std::vector<TensorFunction> products{
      [&](const Tensor& t) { return torch::mm(t, column); },
      [&](const Tensor& t) { return torch::mv(t, column.squeeze(1)); },
      [&](const Tensor& t) { return torch::dot(t.squeeze(0), column.squeeze(1)); },
      [&](const Tensor& t) { return torch::bmm(t.unsqueeze(0), stack); },
      [&](const Tensor& t) {
        return torch::addmm(torch::ones({1, 1}, torch::kHalf), t, column, 2, 0.5);
      },
      [&](const Tensor& t) { return torch::addmv(torch::ones({1}, torch::kHalf), t, column.squeeze(1)); },
      [&](const Tensor& t) {
        return torch::baddbmm(torch::ones({1, 1, 1}, torch::kHalf), t.unsqueeze(0), stack);
      },
      [&](const Tensor& t) {
        return torch::einsum("ik,bkj->bij", {t, stack});
      },
      [&](const Tensor& t) {
        return torch::conv1d(t.unsqueeze(2), stack.view({1, length, 1}));
      },
      [&](const Tensor& t) {
        return torch::conv_transpose2d(t.view({1, length, 1, 1}), stack.view({length, 1, 1, 1}),
                                       stack.view(-1).slice(0, 0, 1));
      }};
  for (size_t i = 0; i < products.size(); ++i)
    for (const Tensor& x : {row, large}) {
      SCOPED_TRACE(testing::Message() << "product " << i);
      expect_like_one_device(x, kColumnsCut, products[i]);
    }
}

TEST(Float16, ConvolutionsByEmptyKernelsAreRefusedAsLibTorchDoes) {
  const Layout layout = layout_on(line_of(2, /*merge=*/false), {"-", "x", "-"});
  const Tensor images = distribute_tensor(torch::ones({2, 2, 1}, torch::kHalf), layout);
  EXPECT_THAT(what_of([&] {
                torch::conv_transpose1d(images, torch::ones({2, 1, 0}, torch::kHalf));
              }),
              testing::HasSubstr("kernel size should be greater than zero"));
}

TEST(Einsum, KeepsTheTypeThatLibTorchGivesIntegers) {
  const Tensor x = torch::arange(8, torch::kInt).view({2, 2, 2});
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "x"}})
    expect_like_one_device(x, axes, [](const Tensor& t) {
      return torch::einsum("aij,ajk->ka", {t.slice(1, 0, 1), t});
    });
}

TEST(Einsum, TakesFactorsOfTwoTypesWhereLibTorchDoes) {
  const Tensor x = torch::arange(4.0).view({2, 2, 1});
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "-"}}) {
    expect_like_one_device(x, axes, [](const Tensor& t) {
      return torch::einsum("aij,ajk->ijk", {t, torch::ones({2, 1, 1}, torch::kDouble)});
    });
    expect_like_one_device(x, axes, [](const Tensor& t) {
      return torch::einsum("aij,ajk->aik", {t, torch::ones({2, 1, 1}, torch::kDouble)});
    });
  }
}

TEST(Einsum, OfNothingHasTheTypeThatLibTorchGivesIt) {
  for (const auto& [one, other] : {std::pair(torch::kBFloat16, torch::kFloat), std::pair(torch::kFloat, torch::kHalf)})
    for (const char* equation : {"aij,ajk->", "aij,ajk->ik", "aij,ajk->ijk"})
      expect_like_one_device(torch::zeros({0, 0, 0}, one), {"x", "-", "-"}, [&](const Tensor& t) {
        return torch::einsum(equation, {t, torch::zeros({0, 0, 0}, other)});
      });
}

TEST(Einsum, OfNoIntegersHasTheirType) {
  for (const auto type : {torch::kByte, torch::kBool})
    for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "-", "x"}})
      for (const int64_t columns : {0, 2})
        expect_like_one_device(torch::zeros({0, 2, 2}, type), axes, [&](const Tensor& t) {
          return torch::einsum("aij,ajk->ka", {t, torch::zeros({0, 2, columns}, type)});
        });
}

TEST(Matmul, OfTruthValuesIsRefusedAsByLibTorch) {
  expect_like_one_device(torch::ones({1, 1, 1}, torch::kBool), {"-", "-", "x"},
                         [](const Tensor& t) { return torch::matmul(t, t); });
}

TEST(Linear, TakesABiasOfAnotherTypeWhereLibTorchDoes) {
  const Tensor weight = torch::ones({4, 3}), bias = torch::ones({4}, torch::kDouble);
  for (const std::vector<int64_t>& order : {std::vector<int64_t>{0, 1, 2}, {1, 0, 2}})
    expect_like_one_device(torch::arange(12.0).view({2, 2, 3}).permute(order), {"x", "-", "-"},
                           [&](const Tensor& t) { return torch::linear(t, weight, bias); });
}

TEST(Einsum, HasGradientsOfFactorsOfTwoTypes) {
  const auto gradient = [](const Tensor& t, const Tensor& other) {
    const Tensor x = t.detach().requires_grad_();
    const Tensor y = torch::einsum("aij,ajk->ka", {x, other});
    return torch::autograd::grad({torch::real(y).sum()}, {x})[0];
  };
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}}) {
    const Tensor wide = torch::arange(4.0, torch::kDouble).view({2, 2, 1});
    expect_like_one_device(wide, axes, [&](const Tensor& t) { return gradient(t, torch::ones({2, 1, 2})); });
    expect_like_one_device(wide, axes, [&](const Tensor& t) {
      return gradient(t, torch::ones({2, 1, 2}, torch::kComplexDouble) * c10::complex<double>(1, 2));
    });
  }
}

TEST(IndexReduce, TakesHalvesOfWhichAPieceHasOne) {
  const Tensor places = torch::zeros({3}, torch::kLong), source = torch::arange(6).view({3, 2}).to(torch::kHalf);
  expect_like_one_device(torch::full({1, 2}, 2, torch::kHalf), kColumnsCut,
                         [&](const Tensor& t) { return torch::index_reduce(t, 0, places, source, "prod"); });
}

TEST(IndexReduce, TakesHalvesOfASourceOfWhichAPieceHasOne) {
  const Tensor self = torch::ones({4, 4}, torch::kHalf);
  expect_like_one_device(
      torch::arange(8.0).view({2, 4}).to(torch::kHalf), kColumnsCut,
      [&](const Tensor& t) {
        return torch::index_reduce(self, 0, torch::tensor({1, 3}), t, "prod");
      },
      4);
}

TEST(LayerNorm, TakesWeightsOfTheTypesThatLibTorchTakes) {
  const auto types = {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16};
  for (const auto type : types)
    for (const auto of_weight : types)
      for (const int64_t elements : {0, 4}) {
        const Tensor weight = torch::ones({elements}, of_weight);
        const Tensor x = torch::arange(3.0 * static_cast<double>(elements)).view({3, elements}).to(type);
        expect_like_one_device(x, kColumnsCut,
                               [&](const Tensor& t) { return torch::layer_norm(t, {elements}, weight); });
        expect_like_one_device(x, kColumnsCut,
                               [&](const Tensor& t) { return torch::layer_norm(t, {elements}, {}, weight); });
        for (const auto of_bias : types)
          expect_like_one_device(x, kColumnsCut, [&](const Tensor& t) {
            return torch::layer_norm(t, {elements}, weight, weight.to(of_bias));
          });
      }
}

TEST(LayerNorm, TakesNoComplexNumbers) {
  for (const int64_t elements : {0, 4})
    expect_like_one_device(torch::zeros({elements}, torch::kComplexFloat), kCut,
                           [&](const Tensor& t) { return torch::layer_norm(t, {elements}); });
}

TEST(BatchNorm, TakesNoComplexNumbers) {
  expect_like_one_device(torch::ones({2, 2}, torch::kComplexFloat), kColumnsCut, [](const Tensor& t) {
    const Tensor statistics = torch::ones_like(t[0]);
    return torch::batch_norm(t, {}, {}, statistics, statistics, false, 0.1, 1e-5, false);
  });
}

// LibTorch reads none of them where there are no channels.
TEST(BatchNorm, OfNoChannelsTakesWeightsAsLibTorchDoes) {
  expect_like_one_device(torch::zeros({2, 0, 1}), {"x", "-", "-"}, [](const Tensor& t) {
    const Tensor statistics = torch::sum(t, at::IntArrayRef({0, 2}));
    return std::get<0>(torch::native_batch_norm(t, torch::ones({1}), {}, statistics, statistics, false, 0.1, 1e-5));
  });
}

TEST(BatchNorm, HasNoGradientBesideStatisticsOfAnotherType) {
  expect_like_one_device(torch::ones({2, 2, 2}), {"x", "-", "-"}, [](const Tensor& t) {
    const Tensor input = t.detach().requires_grad_(), mean = torch::ones_like(t[0][0]);
    const Tensor turned = input.transpose(1, 2), variance = mean.to(torch::kByte);
    torch::batch_norm(turned, {}, {}, mean, variance, false, 0.1, 1e-5, false).sum().backward();
    return input.grad();
  });
}

TEST(BatchNorm, OfAVectorIsRefused) {
  expect_like_one_device(torch::ones({4}), kCut, [](const Tensor& t) {
    return std::get<0>(torch::native_batch_norm(t, {}, {}, {}, {}, true, 0.1, 1e-5));
  });
}

TEST(BatchNorm, LearnsNothingOfNoElements) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{0, 0, 2}, {0, 3, 2}, {2, 3, 0}})
    expect_like_one_device(torch::zeros(sizes), {"x", "-", "-"}, [](const Tensor& t) {
      return std::get<0>(torch::native_batch_norm(t, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5));
    });
}

TEST(Einsum, OfTwoTypesHasTheWiderOne) {
  const Tensor x = torch::rand({1, 4, 2}).to(torch::kBFloat16), y = torch::rand({1, 2, 3});
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}})
    expect_like_one_device(x, axes, [&](const Tensor& t) { return torch::einsum("aij,ajk->ijk", {t, y}); });
}

TEST(Errors, OfWrongTypesAndNumbersAreLibTorchs) {
  const std::vector<TensorFunction> calls{
      [](const Tensor& t) { return torch::norm(t, 2, {0}, false, torch::kFloat); },
      [](const Tensor& t) { return torch::linalg_vector_norm(t, 2, {0}, false, torch::kFloat); },
      [](const Tensor& t) { return torch::norm(t.to(torch::kShort), std::nullopt, torch::kDouble); },
      [](const Tensor& t) { return torch::special_logsumexp(t, {}); },
      [](const Tensor& t) { return at::normal(0.5, -t).mul(0); },
      [](const Tensor& t) { return at::normal(t, -t).mul(0); },
      [](const Tensor& t) { return at::normal(0.5, t).mul(0); }};
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "call " << i);
    expect_like_one_device(torch::arange(4.0, torch::kDouble), kCut, calls[i]);
  }
}

TEST(LayerNorm, OfNoElementsHasTheStatisticsOfOneDevice) {
  for (const int result : {0, 1, 2})
    expect_like_one_device(torch::zeros({3, 0}), kColumnsCut, [&](const Tensor& t) {
      const auto [output, mean, inverse] = torch::native_layer_norm(t, {0}, {}, {}, 1e-5);
      return result == 0 ? output : result == 1 ? mean : inverse;
    });
}

TEST(SearchSorted, TakesASorter) {
  const Tensor sequence = torch::tensor({3.0, 1.0, 2.0}), order = torch::tensor({1, 2, 0});
  expect_like_one_device(torch::tensor({0.5, 1.5, 2.5, 3.5}, torch::kDouble), kCut, [&](const Tensor& t) {
    return torch::searchsorted(sequence.to(torch::kDouble), t, false, false, std::nullopt, order);
  });
}

// LibTorch's own sum comes to an end at 1,250 rows where each sixteenth target is left out, as those of the other half
// of the classes are for the first.
TEST(HalfPrecision, LosesNoTermsOfLossesOverShardedClasses) {
  constexpr int64_t kRows = 2500;
  const Tensor scores =
      torch::arange(8 * kRows).add(16).remainder(31).to(torch::kDouble).view({kRows, 8}).sub(15).div(8);
  const Tensor classes = torch::arange(kRows).mul(7).add(7).remainder(8);
  const Tensor weight = torch::arange(1, 9).to(torch::kDouble).div(4);
  const Mesh mesh = line_of(2, /*merge=*/false);
  for (const auto type : {torch::kBFloat16, torch::kHalf, torch::kFloat})
    for (const bool weighs : {false, true}) {
      const auto loss = [&](const Tensor& x, const Tensor& y, at::ScalarType of_weight) {
        return torch::cross_entropy_loss(x, y, weighs ? weight.to(of_weight) : Tensor());
      };
      const Tensor x = distribute_tensor(scores.to(type), layout_on(mesh, kColumnsCut));
      const double wanted = loss(scores, classes, torch::kDouble).item<double>();
      EXPECT_NEAR(loss(x, classes, type).item<double>(), wanted, type == torch::kFloat ? 1e-5 : 0.03) << type << weighs;
    }
}

}  // namespace
}  // namespace tutti::rules
