// out= arguments take the sizes and the value that LibTorch gives them, on a mesh too.
#include "like_one_device.h"
#include "tests/support/error_of.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

Tensor beside(const Tensor& mesh_tensor, const Tensor& value) {
  if (!is_mesh_tensor(mesh_tensor)) return value;
  return distribute_tensor(value, Layout::replicated(layout_of(mesh_tensor).mesh(), static_cast<int>(value.dim())));
}

using Product = std::function<void(Tensor& out, const Tensor& x)>;

void expect_out_like_one_device(const Tensor& x, const std::vector<std::string>& axes, const Product& product,
                                const std::vector<int64_t>& sizes_of_out) {
  const Tensor given = torch::zeros(sizes_of_out, x.options());
  expect_like_one_device(x, axes, [&](const Tensor& t) {
    Tensor out = beside(t, given.clone());
    product(out, t);
    return out;
  });
}

TEST(OutArguments, OfProductsThatFoldTakeTheResultsSizes) {
  const Tensor x = torch::arange(24.0).view({2, 3, 4});
  const std::vector<Product> products{
      [](Tensor& out, const Tensor& t) { torch::matmul_out(out, t, t.transpose(1, 2)); },
      [](Tensor& out, const Tensor& t) { torch::matmul_out(out, t, t[0].t()); },
      [](Tensor& out, const Tensor& t) { torch::linalg_matmul_out(out, t, t[0].t()); },
      [](Tensor& out, const Tensor& t) {
        torch::chain_matmul_out(out, {t[0], t[1].t(), t[0]});
      },
      [](Tensor& out, const Tensor& t) {
        torch::linalg_multi_dot_out(out, {t[0], t[1].t(), t[0]});
      },
      [](Tensor& out, const Tensor& t) {
        torch::tensordot_out(out, t, t, {0, 2}, {0, 2});
      },
      [](Tensor& out, const Tensor& t) { torch::kron_out(out, t[0], t[1]); },
      [](Tensor& out, const Tensor& t) { torch::inner_out(out, t, t[0]); },
      [](Tensor& out, const Tensor& t) { torch::linalg_matrix_norm_out(out, t); },
      [](Tensor& out, const Tensor& t) { torch::special_ndtr_out(out, t / 10); }};
  for (size_t i = 0; i < products.size(); ++i)
    for (const std::vector<std::string>& axes :
         {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "x"}})
      for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0}, {5}}) {
        SCOPED_TRACE(testing::Message() << "product " << i << " into " << sizes[0]);
        expect_out_like_one_device(x, axes, products[i], sizes);
      }
}

TEST(OutArguments, OfADistanceTakeItsSizes) {
  for (const Tensor& x : {torch::zeros({0, 2}), torch::ones({4, 2})})
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0}, {5}})
      expect_out_like_one_device(
          x, kRowsCut, [](Tensor& out, const Tensor& t) { at::dist_out(out, t, t * 2); }, sizes);
}

TEST(OutArguments, OfListsTakeTheResultsSizes) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0}, {4, 2}})
    expect_out_like_one_device(
        torch::ones({4, 2}), kRowsCut,
        [](Tensor& out, const Tensor& t) {
          at::_foreach_add_out({out}, {t}, 2);
          out.mul_(3);
        },
        sizes);
}

TEST(OutArguments, OfAnotherTypeAreRefusedAsLibTorchDoes) {
  expect_like_one_device(torch::ones({2, 2, 2}), {"x", "-", "-"}, [](const Tensor& t) {
    Tensor out = beside(t, torch::zeros({0}, torch::kLong));
    return torch::matmul_out(out, t, t);
  });
  for (const at::ScalarType type : {torch::kLong, torch::kDouble, torch::kFloat})
    expect_like_one_device(torch::ones({2, 2}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({0}, type));
      return torch::frobenius_norm_out(out, t, {1});
    });
  for (const at::ScalarType type : {torch::kLong, torch::kDouble, torch::kFloat})
    expect_like_one_device(torch::ones({2, 2}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({0}, type));
      return torch::nanmean_out(out, t, {1}, false, torch::kFloat);
    });
  for (const at::ScalarType type : {torch::kDouble, torch::kFloat})
    expect_like_one_device(torch::ones({2, 2}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({2, 2}, type));
      return torch::log_sigmoid_out(out, t);
    });
  for (const at::ScalarType type : {torch::kDouble, torch::kFloat})
    expect_like_one_device(torch::ones({2, 4}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({2, 2}, type));
      return torch::adaptive_avg_pool1d_out(out, t, {2});
    });
  for (const at::ScalarType type : {torch::kDouble, torch::kFloat})
    expect_like_one_device(torch::ones({2, 4}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({}, type));
      return torch::multilabel_margin_loss_out(out, t, beside(t, torch::zeros({2, 4}, torch::kLong)));
    });
  for (const at::ScalarType type : {torch::kComplexDouble, torch::kComplexFloat})
    for (const at::ScalarType of : {torch::kFloat, torch::kComplexFloat})
      expect_like_one_device(torch::ones({2, 4}, of), kRowsCut, [&](const Tensor& t) {
        Tensor out = beside(t, torch::zeros({2, 4}, type));
        return torch::fft_ifft_out(out, t);
      });
  for (const at::ScalarType type : {torch::kComplexFloat, torch::kDouble, torch::kFloat})
    expect_like_one_device(torch::ones({2, 2}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({0}, type));
      return torch::absolute_out(out, t);
    });
  for (const at::ScalarType type : {torch::kHalf, torch::kDouble, torch::kFloat})
    for (const int64_t rows : {0, 2}) {
      const auto expect = [&](const Product& product) {
        expect_like_one_device(torch::ones({rows, 2}), kRowsCut, [&](const Tensor& t) {
          Tensor out = beside(t, torch::zeros({0}, type));
          product(out, t);
          return out;
        });
      };
      expect([](Tensor& out, const Tensor& t) { at::rsub_out(out, t, t * 2); });
      expect([](Tensor& out, const Tensor& t) { at::rsub_out(out, t, 2); });
      expect([](Tensor& out, const Tensor& t) { at::dist_out(out, t, t * 2); });
    }
  expect_like_one_device(torch::ones({2, 2, 2}), {"x", "-", "-"}, [](const Tensor& t) {
    const Tensor leaf = t.detach().requires_grad_();
    Tensor out = beside(t, torch::zeros({0}));
    return torch::matmul_out(out, leaf, leaf);
  });
}

TEST(OutArguments, DecideTheTypeOfSumsAsLibTorchDoes) {
  for (const at::ScalarType type : {torch::kDouble, torch::kHalf})
    for (const bool is_sum : {false, true})
      expect_like_one_device(torch::full({2, 3}, .1F), kColumnsCut, [&](const Tensor& t) {
        Tensor out = beside(t, torch::zeros({0}, type));
        return is_sum ? torch::nansum_out(out, t, {1}) : torch::nanmean_out(out, t, {1});
      });
}

TEST(OutArguments, OfTransformsToRealNumbersAreReal) {
  for (const at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kComplexDouble})
    expect_like_one_device(torch::ones({2, 3}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({0}, type));
      return torch::fft_hfftn_out(out, t);
    });
}

TEST(OutArguments, OfListsHaveTheTypeOfTheResults) {
  for (const at::ScalarType type : {torch::kDouble, torch::kFloat})
    expect_like_one_device(torch::ones({2, 3}), kRowsCut, [&](const Tensor& t) {
      Tensor out = beside(t, torch::zeros({0}, type));
      at::_foreach_max_out({out}, {t});
      return out;
    });
}

TEST(OutArguments, OfListsGoWithATensorOfFactors) {
  expect_like_one_device(torch::ones({2, 3}), kRowsCut, [](const Tensor& t) {
    Tensor out = beside(t, torch::zeros({0}));
    at::_foreach_addcdiv_out({out}, {t}, {t}, {t}, torch::full({1}, 0.5));
    return out;
  });
}

TEST(OutArguments, GetTheGraphThatLibTorchGivesThem) {
  expect_like_one_device(torch::rand({2, 3, 8}), {"x", "-", "-"}, [](const Tensor& t) {
    const Tensor leaf = t.detach().requires_grad_();
    Tensor out = beside(t, torch::zeros({0}));
    torch::adaptive_avg_pool1d_out(out, leaf, {4});
    out.square().sum().backward();
    return leaf.grad();
  });
}

TEST(OutArguments, OfTruthValuesMayBeLeaves) {
  expect_like_one_device(torch::tensor({1., 0., 1.}), {"x"}, [](const Tensor& t) {
    Tensor out = beside(t, torch::zeros({2})).requires_grad_();
    torch::diff_out(out, t > 0);
    return out.detach();
  });
}

TEST(AddedProducts, OfIntegersCutTheirScales) {
  for (const std::vector<std::string>& axes : {kRowsCut, kColumnsCut})
    expect_like_one_device(
        torch::arange(12).view({3, 4}), axes,
        [](const Tensor& t) {
          return beside(t, torch::ones({3, 3}, torch::kLong)).addmm_(t, t.t(), 1.5, 2.5);
        },
        3);
}

TEST(AddedProducts, OfBooleansOfNoElementsAreTaken) {
  expect_like_one_device(torch::zeros({0, 3}, torch::kBool), kColumnsCut, [](const Tensor& t) {
    return beside(t, torch::zeros({0, 0}, torch::kBool)).addmm_(t, t.t());
  });
}

TEST(AddedProducts, OfAnotherTypeAreRefused) {
  for (const int64_t rows : {0, 3})
    for (const at::ScalarType type : {torch::kBool, torch::kDouble})
      expect_like_one_device(torch::zeros({rows, 4}, type), kColumnsCut, [&](const Tensor& t) {
        return beside(t, torch::zeros({rows, rows})).addmm_(t, t.t());
      });
}

TEST(OutArguments, ThatAreViewsOfSeparateBuffersAreNotMadeLarger) {
  const Mesh mesh = line_of(2, /*merge=*/false);
  const Tensor whole = distribute_tensor(torch::arange(4.0).view({4, 1}), layout_on(mesh, {"x", kUnsharded}));
  Tensor part = whole.slice(0, 1, 3);
  const std::string error = what_of([&] { torch::add_out(part, torch::ones({2, 2}), torch::ones({2, 2})); });
  EXPECT_NE(error.find("a result of shape [2, 2] is written to a view of shape [2, 1]"), std::string::npos) << error;
  EXPECT_TRUE(gather(whole).equal(torch::arange(4.0).view({4, 1})));
  torch::add_out(part, torch::ones({2, 1}), torch::ones({2, 1}));
  EXPECT_TRUE(gather(whole).equal(torch::tensor({0.0F, 2.0F, 2.0F, 3.0F}).view({4, 1})));
}

TEST(AddedProducts, OfAnEmptyPieceTakeAVectorThatBroadcasts) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 1}, {2, 0}, {0, 1}, {1, 2}})
    for (const auto& axes : {kRowsCut, kColumnsCut})
      expect_like_one_device(
          torch::ones(sizes), axes,
          [&](const Tensor& t) {
            return torch::addmv(beside(t, torch::full({1}, 3.0f)), t, beside(t, torch::ones({sizes[1]})), 2);
          },
          3);
}

TEST(EmptyAxes, GiveTheirTermOnce) {
  expect_like_one_device(torch::zeros({0}), kCut, [](const Tensor& t) {
    return beside(t, torch::ones({1})).index_add(0, t.to(torch::kLong), t);
  });
  expect_like_one_device(torch::zeros({2, 0}), kColumnsCut, [](const Tensor& t) {
    return torch::addmm(beside(t, torch::ones({2, 2})), t, t.t());
  });
  expect_like_one_device(torch::zeros({0, 3}), kRowsCut, [](const Tensor& t) { return t.softmax(0); });
}

TEST(Truth, OverNoAxesIsThatOfEachElement) {
  for (const auto& axes : {kRowsCut, kColumnsCut}) {
    expect_like_one_device(torch::arange(6.0).view({2, 3}), axes,
                           [](const Tensor& t) { return torch::all(t, at::IntArrayRef{}); });
    expect_like_one_device(torch::arange(6.0).view({2, 3}), axes,
                           [](const Tensor& t) { return torch::any(t, at::IntArrayRef{}, true); });
  }
}

TEST(Bernoulli, DrawsAsOneDeviceDoesOfAnyStrides) {
  const auto drawn = [](const TensorFunction& f) {
    return [f](const Tensor& t) {
      torch::manual_seed(3);
      return f(t.t());
    };
  };
  const Tensor p = torch::arange(8.0).view({2, 4}) / 8;
  for (const auto& axes : {kRowsCut, kColumnsCut}) {
    expect_like_one_device(p, axes, drawn([](const Tensor& t) { return torch::bernoulli(t); }));
    expect_like_one_device(p, axes, drawn([](const Tensor& t) { return torch::bernoulli(t, 0.5); }));
    expect_like_one_device(p * 2, axes, drawn([](const Tensor& t) { return torch::bernoulli(t); }));  // refused
  }
}

TEST(Products, OfSeveralAxesAreContiguous) {
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"-", "x", "-"}, {"x", "-", "-"}})
    expect_like_one_device(torch::arange(6.0).view({1, 3, 2}), axes, [](const Tensor& t) {
      return torch::matmul(t.permute({2, 1, 0}), t.narrow(1, 0, 1).view({1, 2})).view(-1);
    });
}

TEST(Products, OfSizesThatDifferAreRefusedThoughOneIsOne) {
  const Tensor x = torch::ones({1, 3, 1});
  expect_like_one_device(x, {"x", "-", "-"}, [](const Tensor& t) { return torch::matmul(t, torch::ones({2})); });
  expect_like_one_device(x, {"x", "-", "-"}, [](const Tensor& t) { return torch::matmul(t, torch::ones({2, 4})); });
  expect_like_one_device(x, {"-", "x", "-"}, [](const Tensor& t) { return torch::linear(t, torch::ones({4, 2})); });
}

TEST(Gradients, ThatNobodyAsksForAreNotLookedAt) {
  expect_like_one_device(torch::ones({1, 1, 3}), {"-", "x", "-"}, [](const Tensor& t) {
    const Tensor bias = beside(t, torch::ones({1})).requires_grad_();
    torch::conv1d(t, beside(t, torch::ones({1, 1, 1})), bias).sum().backward();
    return bias.grad();
  });
}

TEST(PixelShuffle, OfAnEmptyPieceHasItsGradient) {
  expect_like_one_device(torch::arange(4.0).view({1, 1, 2, 2}), {"x", "-", "-", "-"}, [](const Tensor& t) {
    const Tensor leaf = t.detach().requires_grad_();
    torch::pixel_unshuffle(leaf, 2).square().sum().backward();
    return leaf.grad();
  });
}

TEST(ChannelShuffle, KeepsTheLayoutAndTakesAnyStrides) {
  expect_like_one_device(torch::arange(48.0).view({2, 6, 4}), {"x", "-", "-"},
                         [](const Tensor& t) { return torch::native_channel_shuffle(t.transpose(1, 2), 2); });
  expect_like_one_device(torch::zeros({0, 6, 2, 2}), {"x", "-", "-", "-"},
                         [](const Tensor& t) { return torch::native_channel_shuffle(t, 3); });
}

TEST(EmptyAxes, AreNotLookedForWhereLibTorchDoesNot) {
  expect_like_one_device(torch::zeros({0}), {"x"}, [](const Tensor& t) { return torch::cat({t, t}, 2'000'000'000); });
  expect_like_one_device(torch::zeros({0}), {"x"},
                         [](const Tensor& t) { return torch::roll(t, {0}, {2'000'000'000}); });
  expect_like_one_device(torch::zeros({0}), {"x"}, [](const Tensor& t) { return torch::flip(t, {1}); });
}

TEST(GatheredOperands, OfElementsThatOverlapKeepTheirStrides) {
  expect_like_one_device(torch::arange(8.0).view({4, 2}), {"-", "x"}, [](const Tensor& t) {
    return torch::conv_tbc(t.unfold(0, 3, 1), torch::ones({1, 3, 1}), torch::ones({1}), 0);
  });
}

TEST(Convolution, RefusesABiasOfAnotherTypeWhereLibTorchDoes) {
  expect_like_one_device(torch::ones({2, 2, 1, 1}), {"x", "-", "-", "-"}, [](const Tensor& t) {
    return torch::conv_transpose2d(torch::ones({2, 2, 2, 2}), t, torch::ones({2}, torch::kDouble));
  });
}

}  // namespace
}  // namespace tutti::rules
