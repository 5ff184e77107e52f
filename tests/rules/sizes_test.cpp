// Sizes and axes that do not fit: pieces must not hide from LibTorch what it refuses of the whole.
#include "like_one_device.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

Tensor like(const Tensor& mesh_tensor, const Tensor& value) {
  if (!is_mesh_tensor(mesh_tensor)) return value;
  const Mesh mesh = layout_of(mesh_tensor).mesh();
  return distribute_tensor(value, Layout::batch_sharded(mesh, "x", static_cast<int>(value.dim())));
}

const Tensor kFour = torch::arange(4.0);

TEST(Sizes, ThatDifferAreRefusedThoughPiecesWouldBroadcast) {
  for (const int64_t other : {2, 3, 8}) {
    SCOPED_TRACE(other);
    const Tensor y = torch::arange(static_cast<double>(other));
    const auto refused = [&](const TensorFunction& f) { expect_like_one_device(kFour, kCut, f, 4); };
    refused([&](const Tensor& x) { return x + like(x, y); });
    refused([&](const Tensor& x) { return x * y; });  // a plain operand
    refused([&](const Tensor& x) { return torch::where(x > 1, like(x, y), like(x, y)); });
    refused([&](const Tensor& x) { return torch::dot(x, like(x, y)); });
    refused([&](const Tensor& x) { return torch::mse_loss(x, like(x, y)); });
  }
}

TEST(Sizes, OfACopyAreThoseOfWhatItIsLike) {
  for (const int64_t rows : {1, 4})
    for (const Tensor& source : {torch::arange(4.0), torch::arange(8.0).view({2, 4}), torch::ones({1})})
      expect_like_one_device(
          source,
          source.dim() == 2     ? kColumnsCut
          : source.numel() == 1 ? std::vector<std::string>{"-"}
                                : kCut,
          [&](const Tensor& t) { return at::copy(like(t, torch::zeros({rows})), t); }, 4);
}

TEST(Sizes, ThatDifferAlongOneAxisAreRefused) {
  const Tensor x42 = torch::ones({4, 2});
  expect_like_one_device(
      x42, kRowsCut,
      [](const Tensor& x) {
        return x + like(x, torch::ones({8, 2}));
      },
      4);
  expect_like_one_device(
      x42, kRowsCut,
      [](const Tensor& x) {
        return x.t().mm(like(x, torch::ones({3, 2})));
      },
      4);
  expect_like_one_device(
      x42, kRowsCut,
      [](const Tensor& x) {
        return x.t().mm(like(x, torch::ones({1, 2})));
      },
      4);
  expect_like_one_device(
      x42, kRowsCut,
      [](const Tensor& x) {
        return torch::cat({x, like(x, torch::ones({1, 2}))}, 1);
      },
      4);
}

TEST(Sizes, WhatIsWrittenDoesNotBroadcast) {
  const auto one = [](const Tensor& x) {
    const Tensor zero = torch::zeros({1});
    return is_mesh_tensor(x) ? distribute_tensor(zero, Layout::replicated(layout_of(x).mesh(), 1)) : zero;
  };
  expect_like_one_device(
      kFour, kCut, [&](const Tensor& x) { return one(x).add_(x); }, 4);
  expect_like_one_device(
      kFour, kCut, [&](const Tensor& x) { return one(x).copy_(x); }, 4);
  expect_like_one_device(
      kFour, kCut, [&](const Tensor& x) { return x.clone().add_(one(x)); }, 4);  // taken
}

TEST(Sizes, OfOneElementBroadcastAsLibTorchDoes) {
  expect_like_one_device(torch::zeros({0, 3}), kRowsCut, [](const Tensor& x) { return x + torch::ones({1, 3}); });
  expect_like_one_device(torch::rand({4, 3}), kRowsCut, [](const Tensor& x) {
    return x * like(x, torch::rand({1, 3})) * 0;
  });
  expect_like_one_device(torch::rand({1, 3}), kRowsCut, [](const Tensor& x) { return x + torch::ones({4, 3}); });
}

TEST(Sizes, OfAMatrixThatIsAddedToMustBeTheProducts) {
  const Tensor sum = torch::ones({4, 3});
  expect_like_one_device(sum, kRowsCut, [](const Tensor& x) {
    Tensor copy = x.clone();
    EXPECT_THROW(copy.addmm_(like(x, torch::ones({1, 4})), like(x, torch::ones({4, 3})), 0.5), c10::Error);
    return copy;  // as it was
  });
}

// Which matmul() would broadcast.
TEST(Sizes, OfFactorsOfAProductInPlaceAreNotBroadcast) {
  const Tensor rows = torch::ones({2, 4, 2});
  const std::vector<std::string> contracted{"-", "x", "-"};
  expect_like_one_device(rows, contracted, [](const Tensor& x) {
    return like(x, torch::ones({2, 3, 2})).baddbmm_(like(x, torch::ones({1, 3, 4})), x);
  });
  expect_like_one_device(rows, contracted, [](const Tensor& x) {
    return like(x, torch::ones({2, 3, 2})).addmm_(like(x, torch::ones({3, 4})), x);
  });
  expect_like_one_device(rows.select(0, 0), kRowsCut, [](const Tensor& x) {
    return like(x, torch::ones({3, 2})).addmv_(like(x, torch::ones({3, 4})), x);
  });
}

TEST(Sizes, OfALinearLayersBiasMustFitItsRows) {
  for (const int64_t elements : {0, 1, 2, 3, 4}) {
    SCOPED_TRACE(elements);
    for (const auto& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "-", "-"}})
      expect_like_one_device(torch::ones({4, 2, 5}), axes, [&](const Tensor& x) {
        return torch::linear(x, torch::ones({3, 5}), torch::ones({elements}));
      });
  }
}

TEST(Sizes, OfPixelsThatAreShuffledByNoFactorAreRefused) {
  for (const int64_t factor : {int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{1} << 32, INT64_MAX}) {
    SCOPED_TRACE(factor);
    const auto refused = [&](const TensorFunction& f) {
      for (const char* batch : {"x", "-"}) expect_like_one_device(torch::ones({2, 4, 2, 4}), {batch, "-", "-", "-"}, f);
    };
    refused([&](const Tensor& x) { return torch::pixel_shuffle(x, factor); });
    refused([&](const Tensor& x) { return torch::pixel_unshuffle(x, factor); });
  }
}

TEST(Sizes, OfAViewAreItsElements) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1, 0, 2, 3}, {3, 0}, {5}, {2, -1, 0}})
    expect_like_one_device(torch::ones({2}), {"x"}, [&](const Tensor& x) { return x.reshape(sizes); });
}

TEST(Sizes, OfConjugatesAsAnotherTypeAreRefused) {
  for (const int64_t rows : {0, 1, 4})
    for (const at::ScalarType type : {at::kBFloat16, at::kComplexDouble, at::kDouble}) {
      const Tensor x = torch::ones({rows, 2}, at::kComplexDouble);
      expect_like_one_device(x, {"x", "-"}, [&](const Tensor& t) { return t.conj().view(type); });
      expect_like_one_device(x, {"x", "-"}, [&](const Tensor& t) { return at::imag(t.conj()).view(type); });
    }
}

TEST(Sizes, OfValuesThatAreMoreThanTheIndicesAreRefused) {
  for (const int64_t picked : {1, 2, 3})
    for (const bool accumulate : {true, false})
      for (const bool in_place : {true, false})
        expect_like_one_device(torch::ones({2}), {"x"}, [&](const Tensor& values) {
          const Tensor x = values.sum().expand({1, 3}).clone();
          const c10::List<std::optional<Tensor>> indices({std::optional<Tensor>(), torch::arange(picked)});
          return in_place ? at::index_put(x, indices, values, accumulate)
                          : at::_index_put_impl_(const_cast<Tensor&>(x), indices, values, accumulate);
        });
}

TEST(Sizes, OfConvolutionsWithoutAStrideAreRefused) {
  const Tensor weight = torch::ones({2, 2, 1, 1});
  for (const std::vector<int64_t>& stride : {std::vector<int64_t>{0, 0}, {1, 0}, {0, 0, 0, 0}, {-1, 1}})
    for (const int64_t batch : {0, 2}) {
      const auto refused = [&](const TensorFunction& f) {
        expect_like_one_device(torch::ones({batch, 2, 3, 3}), {"x", "-", "-", "-"}, f);
      };
      refused([&](const Tensor& x) { return at::conv2d(x, weight, {}, stride); });
      refused([&](const Tensor& x) { return at::conv2d(x, weight[0], {}, stride); });
      refused([&](const Tensor& x) { return at::conv_transpose2d(x, weight, {}, stride); });
      refused([&](const Tensor& x) { return at::thnn_conv2d(x, weight, {1, 1}, {}, stride, {0, 0}); });
      refused([&](const Tensor& x) { return at::thnn_conv2d(x, weight, {1, 1}, {}, {1, 1}, {0}); });
    }
}

TEST(Sizes, OfNoGroupsAreRefused) {
  for (const int64_t groups : {0, -1, 3})
    expect_like_one_device(torch::ones({2, 4, 3}), {"x", "-", "-"}, [&](const Tensor& x) {
      return std::get<0>(at::native_group_norm(x, {}, {}, 2, 4, 3, groups, 1e-5));
    });
  for (const auto& [batch, channels, space] : {std::tuple(0, 4, 3), {2, 0, 3}, {2, 4, 0}, {-1, 4, 3}})
    expect_like_one_device(torch::ones({2, 4, 3}), {"x", "-", "-"}, [&](const Tensor& x) {
      return std::get<0>(at::native_group_norm(x, {}, {}, batch, channels, space, 2, 1e-5));
    });
}

// LibTorch takes what is none of its reductions, each loss in its way.
TEST(Sizes, OfALossHangOnItsReduction) {
  for (const int64_t reduction : {-1, 3, 7})
    for (const auto& axes : {std::vector<std::string>{"x", "-"}, {"-", "x"}}) {
      const auto like_one_device = [&](const TensorFunction& loss) {
        expect_like_one_device(torch::arange(8.0).view({4, 2}) / 8, axes, loss);
      };
      like_one_device([&](const Tensor& x) { return at::huber_loss(x, x + 1, reduction); });
      like_one_device([&](const Tensor& x) { return at::smooth_l1_loss(x, x + 1, reduction); });
      like_one_device([&](const Tensor& x) { return at::mse_loss(x, x + 1, reduction); });
      like_one_device([&](const Tensor& x) { return at::binary_cross_entropy(x, x, {}, reduction); });
      like_one_device([&](const Tensor& x) { return at::binary_cross_entropy_with_logits(x, x, {}, {}, reduction); });
    }
}

TEST(Sizes, OfANormalizedShapeMustBeTheLastAxes) {
  for (const int64_t last : {3, 5, 6})
    expect_like_one_device(torch::rand({4, 6}), {"-", "x"},
                           [&](const Tensor& x) { return torch::layer_norm(x, {last}); });
}

TEST(Sizes, OfASliceWithAStepAreTheWholes) {
  for (const int64_t step : {1, 2, 4})
    expect_like_one_device(torch::arange(16.0), kCut, [&](const Tensor& x) { return x.slice(0, 0, 16, step) + 1; });
}

TEST(Sizes, OfGroupsMayDifferBetweenImagesAndKernels) {
  const Tensor kernel = torch::rand({8, 1, 3});
  expect_like_one_device(torch::rand({2, 4, 5}), {"-", "x", "-"}, [&](const Tensor& x) {
    Tensor input = x.detach().requires_grad_();
    const Tensor y = torch::conv1d(input, kernel, {}, 1, 1, 1, 4);
    y.square().sum().backward();
    return torch::cat({y.detach(), input.grad()}, 1);
  });
}

TEST(Axes, ThatDoNotExistAreLibTorchsIndexErrors) {
  const Tensor x46 = torch::rand({4, 6});
  const auto refused = [&](const TensorFunction& f) {
    expect_like_one_device(x46, kRowsCut, f);
    expect_like_one_device(x46, {"-", "x"}, f);
  };
  for (const int64_t axis : std::vector<int64_t>{2, 9, -3, 100, -2'000'000, 1'500'000'000, int64_t{1} << 40}) {
    SCOPED_TRACE(axis);
    refused([&](const Tensor& x) { return x.softmax(axis); });
    refused([&](const Tensor& x) { return x.transpose(0, axis); });
    refused([&](const Tensor& x) { return x.cumsum(axis); });
    refused([&](const Tensor& x) { return x.select(axis, 0); });
    refused([&](const Tensor& x) { return x.sum(axis); });
    refused([&](const Tensor& x) { return x.mean(axis); });
    refused([&](const Tensor& x) { return std::get<0>(x.max(axis)); });
    refused([&](const Tensor& x) { return x.flip({axis}); });
    refused([&](const Tensor& x) { return x.permute({0, axis}); });
    refused([&](const Tensor& x) { return torch::cat({x, x}, axis); });
    if (axis != 2) refused([&](const Tensor& x) { return x.unsqueeze(axis); });
  }
}

TEST(Axes, TooFewOrTooManyAreRefused) {
  const Tensor x46 = torch::rand({4, 6});
  const auto refused = [&](const TensorFunction& f) { expect_like_one_device(x46, kRowsCut, f); };
  refused([](const Tensor& x) { return x.expand({4}); });
  refused([](const Tensor& x) { return x.repeat({4}); });
  refused([](const Tensor& x) { return x.permute({0}); });
  refused([](const Tensor& x) { return x.view({5, 5}); });
  refused([](const Tensor& x) { return x.index({torch::tensor({0}), torch::tensor({0}), torch::tensor({0})}); });
  refused([](const Tensor& x) { return torch::constant_pad_nd(x, {1, 1, 1, 1, 1, 1}); });
  refused([](const Tensor& x) { return torch::pixel_shuffle(x, 2); });
  expect_like_one_device(torch::rand({4}), kCut, [](const Tensor& x) { return x.tril(); });
  expect_like_one_device(torch::rand({4}), kCut, [](const Tensor& x) { return torch::reflection_pad1d(x, {1, 1}); });
}

TEST(Losses, OfLogitsBroadcastAsLibTorchDoes) {
  const std::vector<Tensor> others{torch::rand({1}), torch::rand({3}), torch::rand({2, 3}), {}};
  for (const int64_t reduction : {at::Reduction::None, at::Reduction::Mean})
    for (const Tensor& target : others)
      for (const Tensor& weight : others)
        for (const Tensor& positive : others)
          if (target.defined())
            expect_like_one_device(
                torch::rand({3}), kCut,
                [&](const Tensor& x) {
                  return torch::binary_cross_entropy_with_logits(x, target, weight, positive, reduction);
                },
                /*devices=*/3);
}

TEST(Axes, MoreThanTheAlphabetHasLettersAreGathered) {
  for (const int rank : {16, 26, 33, 64}) {
    SCOPED_TRACE(rank);
    std::vector<int64_t> sizes(static_cast<size_t>(rank), 1);
    sizes[0] = 4;
    sizes.back() = 3;
    std::vector<std::string> axes(sizes.size(), "-");
    axes[0] = "x";
    const Tensor x = torch::arange(12.0).view(sizes);
    expect_like_one_device(x, axes, [](const Tensor& t) { return t + t; });
    expect_like_one_device(x, axes, [](const Tensor& t) { return t.sum(-1); });
    expect_like_one_device(x, axes, [](const Tensor& t) { return t.sum(0); });
    expect_like_one_device(x, axes, [](const Tensor& t) { return t.cumsum(-1); });
    expect_like_one_device(x, axes, [](const Tensor& t) { return t.transpose(0, -1); });
    expect_like_one_device(x, axes, [](const Tensor& t) { return t.flip({-1}); });
    expect_like_one_device(x, axes, [](const Tensor& t) { return t.index_select(-1, torch::tensor({2, 0})); });
  }
}

// LibTorch leaves losses unwritten.
TEST(Losses, OfMoreTargetsThanInputsAreRefused) {
  const Tensor target = distribute_tensor(torch::full({2, 2}, 0.5), layout_on(line_of(2, /*merge=*/false), {"-", "x"}));
  for (const auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum})
    EXPECT_THROW(torch::binary_cross_entropy(torch::full({1}, 0.25), target[0], {}, reduction), c10::Error);
}

// LibTorch multiplies the losses in place.
TEST(Losses, OfMoreWeightsThanInputsAreRefused) {
  const Tensor weight = distribute_tensor(torch::full({2}, 0.5), layout_on(line_of(2, /*merge=*/false), {"x"}));
  const Tensor x = torch::full({1}, 0.25);
  for (const auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum})
    for (const Tensor& factor : {gather(weight), weight})
      EXPECT_THROW(torch::binary_cross_entropy(x, x, factor, reduction), c10::Error);
}

TEST(Losses, OfProbabilitiesSeeNoAxesOfOneElement) {
  for (const auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum})
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4}, {1, 4, 1}, {3, 1, 4}, {3, 4, 1}})
      expect_like_one_device(torch::rand({4}), {"x"}, [&](const Tensor& y) {
        Tensor x = torch::linspace(0.1, 0.9, c10::multiply_integers(sizes)).reshape(sizes).requires_grad_();
        const Tensor loss = torch::binary_cross_entropy(x, y, {}, reduction);
        return torch::cat({loss.reshape({-1}), torch::autograd::grad({loss.sum()}, {x})[0].reshape({-1})});
      });
}

TEST(Norms, OfNoElementsThatHaveNoneAreRefused) {
  const Tensor none = torch::zeros({0}), rows = torch::zeros({4, 0});
  for (const double order : {-1.0, -HUGE_VAL, HUGE_VAL, 0.0, 2.0}) {
    SCOPED_TRACE(order);
    expect_like_one_device(none, kCut, [&](const Tensor& t) { return t.norm(order); });
    expect_like_one_device(none, kCut, [&](const Tensor& t) { return t.dist(t, order); });
    expect_like_one_device(rows, kRowsCut, [&](const Tensor& t) { return t.norm(order, 0); });
    expect_like_one_device(rows, kRowsCut, [&](const Tensor& t) { return torch::linalg_vector_norm(t, order); });
  }
}

TEST(Devices, MoreThan256EachHaveTheirOwnPiece) {
  for (const int devices : {256, 257, 300}) {
    SCOPED_TRACE(devices);
    const Tensor x = torch::arange(static_cast<double>(devices));
    expect_like_one_device(
        x, kCut, [](const Tensor& t) { return t * 2 + 1; }, devices);
    expect_like_one_device(
        x, kCut, [](const Tensor& t) { return t.sum(); }, devices);
    expect_like_one_device(
        x, kCut, [](const Tensor& t) { return t.clone().mul_(2); }, devices);
  }
}

}  // namespace
}  // namespace tutti::rules
