// Strides, aliases and memory: what a program reads off a mesh tensor fits what it gets when the value is gathered.
#include <c10/core/AutogradState.h>
#include <gmock/gmock.h>

#include "like_one_device.h"
#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tutti/core/str.h"
#include "tutti/tensor/strict_mode.h"
#include "tutti/tensor/strides.h"
#include "tutti/tensor/view.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

Tensor saved_and_loaded(const Tensor& x) {
  std::stringstream stream;
  torch::save(x, stream);
  Tensor result;
  torch::load(result, stream);
  return result;
}

TEST(Strides, OfThePiecesOfAColumnMajorMatrixAreTheWholes) {
  torch::manual_seed(3);
  const Tensor x = torch::randn({4, 4}).t();
  const auto gradient = [](const TensorFunction& f) {
    return [f](const Tensor& t) {
      const Tensor input = t.t().contiguous().t().detach().requires_grad_();
      f(input).backward();
      return input.grad();
    };
  };
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"-", "x"}, {"x", "-"}})
    for (const int devices : {2, 4}) {
      expect_like_one_device(x, axes, gradient([](const Tensor& t) { return torch::det(t); }), devices, 1e-4);
      expect_like_one_device(x, axes, gradient([](const Tensor& t) { return std::get<1>(torch::slogdet(t)); }), devices,
                             1e-4);
    }
}

// A view, or what is made of one, of a tensor of sizes {4, 6}.
struct Shape {
  const char* name;
  TensorFunction of;
};

std::vector<Shape> shapes() {
  return {
      {"itself", [](const Tensor& x) { return x; }},
      {"row", [](const Tensor& x) { return x[1]; }},
      {"column", [](const Tensor& x) { return x.select(1, 2); }},
      {"every other row", [](const Tensor& x) { return x.slice(0, 0, 4, 2); }},
      {"every other column", [](const Tensor& x) { return x.slice(1, 0, 6, 2); }},
      {"first columns of each half",
       [](const Tensor& x) {
         return x.view({4, 2, 3}).select(2, 0);
       }},
      {"first rows, turned", [](const Tensor& x) { return x.slice(0, 0, 2).t(); }},
      {"column of a turned part", [](const Tensor& x) { return x.slice(0, 0, 2).t().select(1, 1); }},
      {"column as a matrix", [](const Tensor& x) { return x.select(1, 0).unsqueeze(0); }},
      {"diagonal", [](const Tensor& x) { return x.diagonal(); }},
      {"windows", [](const Tensor& x) { return x.unfold(1, 3, 1); }},
      {"repeated row",
       [](const Tensor& x) {
         return x.slice(0, 1, 2).expand({3, 6});
       }},
      {"halves", [](const Tensor& x) { return x.split(3, 1)[1]; }},
      {"one of the columns", [](const Tensor& x) { return x.unbind(1)[5]; }},
      {"imaginary parts", [](const Tensor& x) { return torch::imag(torch::complex(x, x)); }},
      {"sum over a turned view", [](const Tensor& x) { return x.t() + 1; }},
      {"sum of two types",
       [](const Tensor& x) {
         return x.slice(1, 0, 1).expand({x.size(0), x.size(0)}).to(torch::kFloat) +
                x.slice(1, 0, x.size(0)).to(torch::kDouble).t();
       }},
      {"repeated column compared with a wider type",
       [](const Tensor& x) {
         return x.slice(0, 0, 1).expand({2, 4, 6}) > x.t().to(torch::kDouble).t();
       }},
      {"sum of truth values, of a repeated column",
       [](const Tensor& x) {
         const Tensor positive = x.slice(1, 0, x.size(0)) > 0;
         return positive.slice(1, 0, 1).expand_as(positive) + positive.t();
       }},
      {"repeated row and a wider type, as truth values",
       [](const Tensor& x) {
         const Tensor square = x.slice(1, 0, x.size(0));
         return torch::logical_xor(square.slice(0, 0, 1).expand_as(square), square.to(torch::kDouble).t());
       }},
      {"sum over a part", [](const Tensor& x) { return x.slice(1, 0, 6, 2) + 1; }},
      {"channels last",
       [](const Tensor& x) {
         return x.view({1, 2, 3, 4}).contiguous(torch::MemoryFormat::ChannelsLast) * 2;
       }},
      {"exponents, channels last",
       [](const Tensor& x) {
         return std::get<1>(torch::frexp(x.view({1, 2, 3, 4}).contiguous(torch::MemoryFormat::ChannelsLast).cosh()));
       }},
      {"new memory",
       [](const Tensor& x) {
         return x.new_empty_strided({4, 6}, {1, 4}).zero_();
       }},
      {"padded",
       [](const Tensor& x) {
         return torch::replication_pad2d(x.t().unsqueeze(0), {1, 2, 0, 1});
       }},
      {"padded by reflections",
       [](const Tensor& x) {
         return torch::reflection_pad2d(x.t().unsqueeze(0), {1, 2, 0, 1});
       }},
      {"padded images, channels last",
       [](const Tensor& x) {
         return torch::replication_pad2d(x.view({1, 2, 3, 4}).contiguous(torch::MemoryFormat::ChannelsLast),
                                         {1, 0, 1, 0});
       }},
      {"angles", [](const Tensor& x) { return torch::angle(torch::complex(x, torch::zeros_like(x))); }},
      {"logarithms of sigmoids", [](const Tensor& x) { return torch::log_sigmoid(x.t()); }},
      {"what a dropout keeps",
       [](const Tensor& x) {
         torch::manual_seed(3);
         return std::get<1>(torch::native_dropout(x.t(), 0.5, true));
       }},
      {"normalized", [](const Tensor& x) { return torch::layer_norm(x.t(), {4}); }},
      {"likelihoods", [](const Tensor& x) { return x.t().softmax(0); }},
      {"mean", [](const Tensor& x) { return x.t().mean(std::vector<int64_t>{1}, true); }},
  };
}

template <class See>
void for_each_shape(See see) {
  for (const Tensor& x : {torch::arange(24.0).view({4, 6}), torch::arange(24.0).view({6, 4}).t()})
    for (const int devices : {2, 4})
      for (const bool merge : {true, false})
        for (const std::vector<std::string>& axes : {std::vector<std::string>{"-", "-"}, kRowsCut, kColumnsCut})
          for (const Shape& shape : shapes()) {
            const Layout layout = layout_on(line_of(devices, merge), axes);
            SCOPED_TRACE(str(shape.name, " of ", layout.to_string(), merge ? " merged" : " separate"));
            try {
              shape.of(x);
            } catch (const c10::Error&) {
              EXPECT_THROW(shape.of(distribute_tensor(x, layout)), c10::Error);
              continue;
            }
            see(shape, x, distribute_tensor(x, layout));
          }
}

TEST(Strides, AreThoseOfOneDevice) {
  for_each_shape([](const Shape& shape, const Tensor& x, const Tensor& on_mesh) {
    const Tensor expected = shape.of(x), seen = shape.of(on_mesh);
    ASSERT_EQ(seen.sizes(), expected.sizes());
    EXPECT_TRUE(are_same_strides(expected.sizes(), seen.strides(), expected.strides()))
        << str_list(seen.strides()) << " and not " << str_list(expected.strides());
    EXPECT_EQ(seen.is_contiguous(), expected.is_contiguous());
    EXPECT_EQ(seen.is_non_overlapping_and_dense(), expected.is_non_overlapping_and_dense());
    EXPECT_TRUE(gather(seen).equal(expected));
    EXPECT_TRUE(saved_and_loaded(seen).equal(expected));
  });
}

TEST(Strides, TellWhetherAContiguousTensorIsACopy) {
  for_each_shape([](const Shape& shape, const Tensor& x, const Tensor& on_mesh) {
    const auto written = [&](const Tensor& value) {
      const Tensor whole = value * 1;
      Tensor view = shape.of(whole);
      if (!view.is_non_overlapping_and_dense() && view.is_contiguous()) return whole;
      view.contiguous().zero_();
      return whole;
    };
    EXPECT_TRUE(gather(written(on_mesh)).equal(written(x)));
  });
}

TEST(Strides, OfACopiedViewNameItsPlacesInMemory) {
  const Tensor x = torch::arange(24.0).view({4, 6});
  for (const std::vector<std::string>& axes : {kRowsCut, kColumnsCut}) {
    expect_like_one_device(x, axes, [](const Tensor& t) { return t.select(1, 1).as_strided({2, 2}, {6, 12}); });
    expect_like_one_device(x, axes, [](const Tensor& t) {
      t.slice(1, 0, 6, 2).as_strided({4}, {6}).zero_();
      return t;
    });
    const Tensor part = distribute_tensor(x, layout_on(line_of(2, /*merge=*/false), axes)).slice(1, 0, 6, 2);
    EXPECT_EQ(code_of([&] { part.as_strided({4}, {1}); }), ErrorCode::unimplemented);
    EXPECT_EQ(code_of([&] { part.as_strided({2}, {2}, 0); }), ErrorCode::unimplemented);
    EXPECT_EQ(code_of([&] { part.as_strided({24}, {1}); }),
              ErrorCode::unimplemented);  // where the base alone has memory
    const Tensor column_major = distribute_tensor(x.t(), layout_on(line_of(2, /*merge=*/false), axes)).select(1, 0);
    EXPECT_EQ(code_of([&] { torch::as_strided_copy(column_major, {2}, {6}); }), ErrorCode::unimplemented);
  }
}

TEST(Strides, OfARepeatedBatchAreThoseThatTheFormulaWasGiven) {
  torch::manual_seed(3);
  expect_like_one_device(
      torch::randn({1, 3, 3}), {"-", "x", "-"},
      [](const Tensor& t) {
        const Tensor input = t.detach().expand({4, 3, 3}).requires_grad_();
        torch::det(input).sum().backward();
        return input.grad();
      },
      2, 1e-4);
}

TEST(Strides, OfMatricesBetweenOthersAreThoseThatTheFormulaWasGiven) {
  torch::manual_seed(4);
  const Tensor x = torch::randn({4, 6, 3});
  const auto gradient = [](const TensorFunction& f) {
    return [f](const Tensor& t) {
      const Tensor input = t.detach().requires_grad_();
      f(input.slice(1, 0, 6, 2)).sum().backward();
      return input.grad();
    };
  };
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "-", "x"}})
    for (const int devices : {1, 2, 4}) {
      expect_like_one_device(x, axes, gradient([](const Tensor& t) { return torch::det(t); }), devices, 1e-4);
      expect_like_one_device(x, axes, gradient([](const Tensor& t) { return std::get<1>(torch::slogdet(t)); }), devices,
                             1e-4);
      const auto solve = [](const Tensor& t) {
        return std::get<0>(at::linalg_solve_ex(t, at::arange(3.0).expand({4, 1, 3}).mT()));
      };
      expect_like_one_device(x, axes, gradient(solve), devices, 1e-4);
    }
}

TEST(Strides, AreSavedWithTheElementsTheyAreOf) {
  const Tensor x = torch::arange(12.0).view({3, 4});
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"-", "x"}, {"x", "-"}})
    for (const int devices : {2, 3, 4}) {
      expect_like_one_device(
          x, axes, [](const Tensor& t) { return saved_and_loaded(t.t()); }, devices);
      expect_like_one_device(
          x, axes, [](const Tensor& t) { return saved_and_loaded((t * 1).t() + 0); }, devices);
      expect_like_one_device(
          x, axes, [](const Tensor& t) { return saved_and_loaded(t.slice(1, 0, 4, 2)); }, devices);
      expect_like_one_device(
          x, axes,
          [](const Tensor& t) {
            return saved_and_loaded(t.sum(1, true).expand({3, 5}));
          },
          devices);
      expect_like_one_device(
          x, axes,
          [](const Tensor& t) {
            return saved_and_loaded(t.sum(0, true).expand({5, 4}));
          },
          devices);
    }
}

TEST(Storage, IsOfWhatWasSetLast) {
  expect_like_one_device(torch::arange(12.0).view({3, 4}), kRowsCut, [](const Tensor& t) {
    Tensor set = t * 2;
    saved_and_loaded(set);
    set.set_data(t * 3);
    return saved_and_loaded(set);
  });
}

TEST(Strides, OfATransposedTensorNameItsElementsInOrder) {
  expect_like_one_device(torch::arange(6.0).view({2, 3}), {"x", "-"},
                         [](const Tensor& t) { return t.t().as_strided({6}, {1}); });
}

TEST(Strides, OfALinearLayersGradientsAreLibTorchs) {
  const Tensor x = torch::arange(24.0).view({3, 2, 4});
  const auto gradient = [](const Tensor& t) {
    const Tensor weight = torch::ones({5, 4}).requires_grad_();
    const Tensor on_mesh =
        is_mesh_tensor(t)
            ? distribute_tensor(weight.detach(), Layout::replicated(layout_of(t).mesh(), 2)).requires_grad_()
            : weight;
    return torch::autograd::grad({torch::linear(t, on_mesh).square().sum()}, {on_mesh})[0];
  };
  for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}})
    for (const bool merge : {true, false}) {
      const Tensor seen = gradient(distribute_tensor(x, layout_on(line_of(2, merge), axes)));
      EXPECT_EQ(seen.strides(), gradient(x).strides());
      EXPECT_TRUE(torch::allclose(gather(seen), gradient(x)));
    }
}

void expect_strides_of_one_device(const Tensor& x, const std::vector<std::string>& axes, const TensorFunction& f,
                                  int devices = 2) {
  const Tensor wanted = f(x), seen = f(distribute_tensor(x, layout_on(line_of(devices, /*merge=*/false), axes)));
  EXPECT_TRUE(are_same_strides(wanted.sizes(), seen.strides(), wanted.strides()))
      << seen.strides() << " and not " << wanted.strides();
  EXPECT_TRUE(gather(seen).allclose(wanted));
}

TEST(Strides, OfConvolutionsHaveTheChannelsLastAsLibTorchDoes) {
  const std::vector<std::string> channels_cut{kUnsharded, "x", kUnsharded, kUnsharded};
  const Tensor repeated = torch::ones({2, 1, 2, 2}).expand({2, 2, 2, 2});
  const Tensor images = torch::arange(24.0).view({2, 2, 2, 3}), last = images.to(at::MemoryFormat::ChannelsLast);
  for (const at::ScalarType type : {at::kFloat, at::kInt})
    for (const Tensor& x : {images, last})
      for (const Tensor& weight : {repeated, repeated.contiguous(at::MemoryFormat::ChannelsLast)})
        expect_strides_of_one_device(x.to(type), channels_cut,
                                     [&](const Tensor& t) { return torch::conv2d(t, weight.to(type)); });
  const Tensor lines = torch::arange(12.0).view({2, 2, 3}), turned = torch::arange(8.0).view({2, 2, 2}).transpose(1, 2);
  for (const Tensor& x : {lines, lines.transpose(0, 1), lines.transpose(1, 2).contiguous().transpose(1, 2)})
    expect_strides_of_one_device(x, {kUnsharded, "x", kUnsharded},
                                 [&](const Tensor& t) { return torch::conv1d(t, turned); });
  const Tensor kernels = torch::ones({2, 1, 2, 2, 2}).expand({2, 2, 2, 2, 2});
  expect_strides_of_one_device(torch::arange(8.0F).view({2, 2, 1, 2, 1}),
                               {kUnsharded, "x", kUnsharded, kUnsharded, kUnsharded},
                               [&](const Tensor& t) { return torch::conv_transpose3d(t, kernels); });
  for (const auto& [count, space] : {std::pair{1, 1}, {2, 1}, {17, 3}})  // of one image LibTorch takes another kernel
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const bool transposed : {false, true}) {
        const Tensor x = torch::ones({count, 2, space, space, space}, type);
        const Tensor weight = torch::ones({2, 2, 1, 1, 1}, type).expand({2, 2, transposed ? 2 : 1, 1, 1});
        expect_strides_of_one_device(x, {"x", kUnsharded, kUnsharded, kUnsharded, kUnsharded}, [&](const Tensor& t) {
          const Tensor last = weight.contiguous(at::MemoryFormat::ChannelsLast3d);
          return transposed ? torch::conv_transpose3d(t, last) : torch::conv3d(t, last);
        });
      }
}

TEST(Strides, OfASlowConvolutionHangOnTheWholeWeights) {
  const Tensor images = torch::arange(126.0).view({3, 7, 3, 2});
  const Tensor weight = torch::arange(104.0).view({2, 13, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const Tensor& x : {images, images.contiguous(at::MemoryFormat::ChannelsLast)})
    expect_strides_of_one_device(weight, {kUnsharded, kUnsharded, kUnsharded, "x"}, [&](const Tensor& t) {
      return at::thnn_conv2d(x, t.slice(1, 0, 13, 2), {2, 2}, {}, {1, 1}, {0, 0});
    });
}

TEST(Strides, OfADilatedConvolutionHangOnTheWholeImages) {
  const Tensor images = torch::arange(27.0).view({1, 3, 3, 3}), weight = torch::arange(24.0).view({2, 3, 2, 2});
  for (const Tensor& x : {images, images.contiguous(at::MemoryFormat::ChannelsLast)})
    for (const int64_t step : {1, 2})
      expect_strides_of_one_device(x, {kUnsharded, "x", kUnsharded, kUnsharded}, [&](const Tensor& t) {
        return at::slow_conv_dilated2d(t.slice(2, {}, {}, step), weight, {2, 2}, {}, {1, 1}, {0, 0}, {1, 1});
      });
  const Tensor back = weight.transpose(0, 1).contiguous();
  for (const Tensor& x : {images, images.contiguous(at::MemoryFormat::ChannelsLast)})
    for (const int64_t step : {1, 2})
      expect_strides_of_one_device(x, {kUnsharded, "x", kUnsharded, kUnsharded}, [&](const Tensor& t) {
        return at::slow_conv_transpose2d(t.slice(2, {}, {}, step), back, {2, 2}, {}, {1, 2}, {0, 1}, {0, 1}, {1, 1});
      });
}

TEST(Strides, OfAveragesOverRegionsHangOnTheWholeImage) {
  const Tensor image = torch::arange(12.0).view({2, 2, 1, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const bool has_gaps : {true, false})
    expect_strides_of_one_device(image, {kUnsharded, kUnsharded, "x", kUnsharded}, [&](const Tensor& t) {
      return torch::adaptive_avg_pool2d(has_gaps ? t.slice(3, 0, 3, 2) : t, {3, 2});
    });
}

TEST(Strides, OfResultsThatAreGivenOutAreThoseOfTheOp) {
  const Tensor rows = torch::arange(12.0).view({4, 3}), squares = torch::arange(32.0).view({2, 4, 4}).tril();
  for (const auto& axes : {std::vector<std::string>{kUnsharded, kUnsharded}, {"x", kUnsharded}})
    expect_strides_of_one_device(rows, axes, [&](const Tensor& t) {
      Tensor u = t.new_empty({0}), s = t.new_empty({0}), vh = t.new_empty({0});
      at::linalg_svd_out(u, s, vh, t);
      return u;
    });
  expect_strides_of_one_device(squares, {kUnsharded, kUnsharded, kUnsharded}, [&](const Tensor& t) {
    Tensor inverse = t.new_empty({0});
    at::linalg_inv_out(inverse, t + torch::eye(4) * 100);
    return inverse;
  });
}

TEST(Strides, OfATriangularSystemHangOnALazyConjugate) {
  const Tensor triangle = torch::ones({3, 3}, torch::kComplexDouble).tril().t();
  for (const bool conjugate : {false, true})
    expect_strides_of_one_device(triangle, {kUnsharded, "x"}, [&](const Tensor& t) {
      return at::linalg_solve_triangular(conjugate ? t.conj() : t, torch::ones({3, 3}, torch::kComplexDouble), true);
    });
}

TEST(Strides, OfAHuberLossAreThoseOfTheInputOrOfASum) {
  const Tensor target = torch::arange(4.0).view({2, 2}).t();
  for (const Tensor& input : {torch::ones({2, 1}), torch::ones({2, 2}), torch::ones({2, 2}).t()})
    expect_strides_of_one_device(target, {kUnsharded, "x"},
                                 [&](const Tensor& t) { return torch::huber_loss(input, t, at::Reduction::None); });
}

TEST(Strides, OfUnpooledImagesAreThoseForImagesThatLieSo) {
  const Tensor places = torch::arange(16).mul(17).remainder(16).view({2, 2, 2, 2});
  const Tensor images = torch::arange(24.0).view({2, 2, 3, 2});
  for (const Tensor& x : {images, images.contiguous(at::MemoryFormat::ChannelsLast)})
    for (const size_t axis : {0, 3})
      for (const int64_t step : {1, 2}) {
        std::vector<std::string> axes(4, kUnsharded);
        axes[axis] = "x";
        expect_strides_of_one_device(x, axes, [&](const Tensor& t) {
          return torch::max_unpool2d(t.slice(2, 0, 1 + step, step), places, {4, 4});
        });
      }
}

TEST(Strides, OfPooledVolumesAreThoseForVolumesThatLieSo) {
  const Tensor volumes = torch::arange(144.0).view({2, 2, 6, 2, 3});
  for (const Tensor& x : {volumes, volumes.contiguous(at::MemoryFormat::ChannelsLast3d)})
    for (const size_t axis : {0, 1, 4})
      for (const int64_t step : {1, 2})
        for (const bool backward : {false, true}) {
          std::vector<std::string> axes(5, kUnsharded);
          axes[axis] = "x";
          const auto pooled = [&](const Tensor& t) {
            const Tensor images = t.slice(4, 0, 3, step);
            const auto [y, places] = torch::max_pool3d_with_indices(images, {2, 2, 2});
            return backward ? torch::max_pool3d_with_indices_backward(torch::ones_like(y), images, {2, 2, 2}, {2, 2, 2},
                                                                      0, 1, false, places)
                            : y;
          };
          expect_strides_of_one_device(x, axes, pooled, /*devices=*/3);
        }
}

TEST(Strides, OfAChoiceHangOnAllOperands) {
  const Tensor condition = torch::tensor({{true}, {false}});
  for (const Tensor& x : {torch::ones({2, 2}), torch::ones({2, 2}).t(), torch::ones({2, 2}, torch::kDouble).t()})
    expect_strides_of_one_device(x, {kUnsharded, "x"}, [&](const Tensor& t) {
      return torch::where(condition.expand({2, 2}), torch::ones({2, 1}).expand({2, 2}), t.t());
    });
}

TEST(Strides, OfShuffledPixelsHaveTheChannelsLastWhereTheImagesDo) {
  const Tensor images = torch::arange(96.0).view({3, 4, 2, 4});
  for (const Tensor& x : {images.slice(1, 0, 4, 2), images, images.contiguous(at::MemoryFormat::ChannelsLast)})
    for (const size_t axis : {0, 1}) {
      std::vector<std::string> axes(4, kUnsharded);
      axes[axis] = "x";
      expect_strides_of_one_device(x, axes, [](const Tensor& t) { return torch::pixel_unshuffle(t, 2); });
      if (x.size(1) == 4)
        expect_strides_of_one_device(x, axes, [](const Tensor& t) { return torch::pixel_shuffle(t, 2); });
    }
}

TEST(Strides, OfShuffledChannelsHangOnTheWholeImages) {
  const Tensor x = torch::rand({1, 2, 3, 1}).contiguous(at::MemoryFormat::ChannelsLast);
  for (const auto& axes : {std::vector<std::string>{"-", "x", "-", "-"}, {"-", "-", "-", "-"}}) {
    expect_strides_of_one_device(x, axes, [](const Tensor& t) { return torch::channel_shuffle(t, 2); });
    expect_strides_of_one_device(x, axes,
                                 [](const Tensor& t) { return torch::channel_shuffle(t.slice(2, {}, {}, 2), 2); });
    expect_strides_of_one_device(x, axes, [](const Tensor& t) { return torch::channel_shuffle(t.slice(2, 0, 0), 2); });
  }
}

TEST(Strides, OfABinaryCrossEntropyAreThoseOfTheFirstOperand) {
  const Tensor x = torch::full({1, 2}, 0.25), rows = torch::full({2, 2}, 0.5);
  expect_strides_of_one_device(x, {"-", "-"}, [&](const Tensor& t) {
    const Tensor weight = is_mesh_tensor(t) ? distribute_tensor(rows, layout_on(layout_of(t).mesh(), kRowsCut)) : rows;
    return torch::binary_cross_entropy(t.expand({2, 2}), rows, weight, at::Reduction::None);
  });
}

TEST(Strides, OfABinaryCrossEntropyWithLogitsAreThoseOfTheTarget) {
  const Tensor logits = torch::full({2, 2}, 0.5);
  for (const Tensor& target : {torch::full({1, 2}, 0.25), torch::full({2, 1}, 0.25)})
    expect_strides_of_one_device(target, {"-", "-"}, [&](const Tensor& t) {
      const Tensor x = is_mesh_tensor(t) ? distribute_tensor(logits, layout_on(layout_of(t).mesh(), kRowsCut)) : logits;
      return torch::binary_cross_entropy_with_logits(x, t.expand({2, 2}), {}, {}, at::Reduction::None);
    });
}

TEST(Strides, OfDrawsWithProbabilitiesBesideAreThoseOfTheOperand) {
  const Tensor x = torch::rand({4, 6}).t();
  for (const std::vector<std::string>& axes : {kRowsCut, kColumnsCut}) {
    expect_strides_of_one_device(x, axes, [](const Tensor& t) {
      torch::manual_seed(3);
      return torch::bernoulli(t, t);
    });
    expect_strides_of_one_device(x, axes, [](const Tensor& t) {
      torch::manual_seed(3);
      return torch::bernoulli(t);
    });
  }
}

TEST(Strides, OfDrawsWithMeansAndDeviationsAreContiguous) {
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = false});
  const Tensor means = torch::zeros({4, 6}).t(), deviations = torch::ones({1, 4}, torch::kDouble);
  const Tensor drawn = at::normal(distribute_tensor(means, Layout({kUnsharded, kUnsharded}, mesh)),
                                  distribute_tensor(deviations, Layout({kUnsharded, "x"}, mesh)));
  const Tensor plain = at::normal(means, deviations);
  EXPECT_EQ(drawn.strides(), plain.strides());
  EXPECT_EQ(drawn.scalar_type(), plain.scalar_type());
}

TEST(Strides, OfWhatIsFlippedAreThoseOfTheOperand) {
  for (const int64_t columns : {2, 6})
    expect_strides_of_one_device(torch::rand({columns, 4}).t(), kColumnsCut,
                                 [](const Tensor& t) { return t.flip({0}); });
}

TEST(Strides, OfWhatIsTurnedAreThoseOfItsFlips) {
  for (const int64_t quarters : {-1, 0, 1, 2, 3, 6})
    for (const int64_t columns : {2, 6})
      expect_strides_of_one_device(torch::rand({columns, 4}).t().unflatten(0, {2, -1}), {kUnsharded, "x", kUnsharded},
                                   [&](const Tensor& t) {
                                     return t.rot90(quarters, {0, 1});
                                   });
}

TEST(Strides, OfPaddedImagesAreThoseOfTheImageNotOfAPiece) {
  const Tensor image = torch::rand({1, 2, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const Tensor space = torch::rand({1, 2, 2, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast3d);
  for (const int64_t step : {1, 2}) {  // with a gap the image of one does not count as channels-last
    const auto like_one_device = [&](const Tensor& x, const std::vector<std::string>& axes, const TensorFunction& pad) {
      expect_strides_of_one_device(
          x, axes, [&](const Tensor& t) { return pad(t.clone().slice(1, {}, {}, step).mul_(2)); }, /*devices=*/3);
      expect_strides_of_one_device(
          x, axes, [&](const Tensor& t) { return pad(t.clone().slice(2, {}, {}, step).mul_(2)); }, /*devices=*/3);
    };
    for (const auto& axes : {std::vector<std::string>{"-", "x", "-", "-"}, {"-", "-", "x", "-"}}) {
      like_one_device(image, axes, [](const Tensor& t) { return torch::reflection_pad2d(t, {0, 0, 0, 0}); });
      like_one_device(image, axes, [](const Tensor& t) { return torch::replication_pad2d(t, {1, 2, 0, 1}); });
    }
    const std::vector<std::string> channels{"-", "x", "-", "-", "-"};
    like_one_device(space, channels, [](const Tensor& t) { return at::reflection_pad3d(t, {0, 0, 0, 0, 0, 0}); });
    like_one_device(space, channels, [](const Tensor& t) { return at::replication_pad3d(t, {1, 2, 0, 1, 1, 1}); });
  }
}

TEST(Views, OfAnotherTypeAreMadeOfPiecesWithoutElementsToo) {
  const Tensor weight = torch::ones({1, 1}, at::kBFloat16), bias = torch::ones({1}, at::kBFloat16);
  expect_like_one_device(torch::ones({1, 1, 1}, at::kBFloat16), {"-", "x", "-"},
                         [&](const Tensor& t) { return torch::linear(t, weight, bias).view(at::kShort); });
}

TEST(Strides, OfAnglesAreThoseOfElementsButForComplexNumbers) {
  const Tensor x = torch::arange(-2.0, 2.0).view({2, 2}).t();
  for (const at::ScalarType type : {at::kFloat, at::kInt, at::kComplexFloat})
    for (const std::vector<std::string>& axes : {std::vector<std::string>{"x", "-"}, {"-", "x"}})
      expect_strides_of_one_device(x.to(type), axes, [](const Tensor& t) { return torch::angle(t); });
}

TEST(Pieces, AreContiguousForKernelsThatInsist) {
  torch::manual_seed(1);
  const Tensor x = torch::randn({4, 6, 4});
  const auto backward = [](const TensorFunction& f) {
    return [f](const Tensor& t) {
      const Tensor input = t.transpose(0, 1).contiguous().transpose(0, 1).detach().requires_grad_();
      const Tensor y = f(input);
      y.square().sum().backward();
      return input.grad();
    };
  };
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "x"}}) {
    expect_like_one_device(x, axes, backward([](const Tensor& t) { return torch::group_norm(t, 3); }), 2, 1e-4);
    expect_like_one_device(x, axes, backward([](const Tensor& t) { return torch::kron(t[0], t[1]); }), 2, 1e-4);
    expect_like_one_device(x, axes, backward([](const Tensor& t) {
                             const Tensor classes = torch::arange(16).remainder(6).view({4, 4});
                             return torch::nll_loss_nd(t.log_softmax(1), classes);
                           }),
                           2, 1e-4);
    expect_like_one_device(torch::randn({4, 6, 4, 1}), {axes[0], axes[1], axes[2], "-"}, backward([](const Tensor& t) {
                             const Tensor classes = torch::arange(16).remainder(6).view({4, 4, 1});
                             return torch::nll_loss_nd(t.log_softmax(1), classes);
                           }),
                           2, 1e-4);
  }
}

// A gradient that is sharded by another axis than the first, of a norm whose input is not.
TEST(Pieces, OfALayerNormsStatisticsAreContiguous) {
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = false});
  const Tensor value = torch::randn({3, 4, 5}), scale = torch::randn({3, 4, 5});
  const auto gradient = [](Tensor input, const Tensor& by) {
    input.requires_grad_();
    (torch::layer_norm(input, {5}) * by).square().sum().backward();
    return gather(input.grad());
  };
  const Tensor plain = gradient(value.clone(), scale);
  for (const auto& axes : std::vector<std::vector<std::string>>{{"x", "-", "-"}, {"-", "x", "-"}, {"-", "-", "x"}}) {
    const auto layout = [&](const std::string& x) {
      std::vector<std::string> all = axes;
      for (std::string& axis : all) axis = axis == "x" ? x : kUnsharded;
      return Layout(all, mesh);
    };
    const Tensor seen = gradient(distribute_tensor(value, layout(kUnsharded)), distribute_tensor(scale, layout("x")));
    EXPECT_TRUE(seen.allclose(plain, 1e-4, 1e-5)) << axes;
  }
}

TEST(Geometry, ThatChangesInPlaceIsTheTensorsOwn) {
  for (const bool merge : {true, false}) {
    SCOPED_TRACE(merge);
    const Mesh mesh = line_of(2, merge);
    const Tensor x = distribute_tensor(torch::zeros({4, 2}), layout_on(mesh, {"-", "-"}));
    const Tensor data = x.data(), detached = x.detach();
    EXPECT_EQ((x.data().unsqueeze_(0) + 1).sizes(), (std::vector<int64_t>{1, 4, 2}));
    EXPECT_EQ((x + 1).sizes(), (std::vector<int64_t>{4, 2}));
    x.t_();
    EXPECT_EQ((x + 1).sizes(), (std::vector<int64_t>{2, 4}));
    EXPECT_EQ((data + 1).sizes(), (std::vector<int64_t>{4, 2}));
    EXPECT_EQ((detached + 1).sizes(), (std::vector<int64_t>{4, 2}));
    x.add_(1);  // still one value
    EXPECT_EQ(detached.sum().item<double>(), 8);
  }
}

TEST(Geometry, ThatChangesInPlaceKeepsTheLayout) {
  for (const bool merge : {true, false}) {
    SCOPED_TRACE(merge);
    const Mesh mesh = line_of(2, merge);
    const Tensor whole = torch::arange(12.0).view({4, 1, 3});
    Tensor x = distribute_tensor(whole, layout_on(mesh, {"x", "-", "-"}));
    const CollectedWarnings warnings;
    x.squeeze_(1);
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"x", "-"}));
    x.t_();
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"-", "x"}));
    x.transpose_(0, 1);
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"x", "-"}));
    x.transpose_(1, 0);
    x.unsqueeze_(0);
    EXPECT_EQ(layout_of(x), layout_on(mesh, {"-", "-", "x"}));
    EXPECT_TRUE(gather(x).equal(whole.squeeze(1).t().unsqueeze(0)));
    EXPECT_TRUE(warnings.lines().empty());
  }
}

TEST(Geometry, ThatChangesInPlaceOfWhatNeedsAGradientHasNoViews) {
  for (const bool merge : {true, false}) {
    SCOPED_TRACE(merge);
    const Tensor x = distribute_tensor(torch::ones({2, 3}), layout_on(line_of(2, merge), {"x", "-"})).requires_grad_();
    Tensor viewed = x * 1;
    const Tensor row = viewed.select(0, 0);
    EXPECT_EQ(error_of([&] { viewed.t_(); }),
              "failed_precondition: aten::t_ changes the shape of a tensor of shape [2, 3] that needs a gradient and "
              "has views, whose gradients would be wrong; use aten::t, or take the views afterwards");
    EXPECT_EQ(row.sizes(), (std::vector<int64_t>{3}));

    Tensor alone = torch::linear(x, torch::ones({1, 3}));
    alone.squeeze_(1);
    alone.select(0, 1).backward();
    EXPECT_TRUE(gather(x.grad()).equal(torch::tensor({0.0F, 0.0F, 0.0F, 1.0F, 1.0F, 1.0F}).view({2, 3})));
    const torch::NoGradGuard no_gradients;
    Tensor without_gradient = x * 1;
    const Tensor column = without_gradient.select(1, 0);
    without_gradient.t_();
    EXPECT_EQ(column.sizes(), (std::vector<int64_t>{2}));
  }
}

TEST(Geometry, OfAWholeValueChangesInPlaceUnderItsViews) {
  const Mesh mesh = line_of(2, /*merge=*/true);
  const Tensor x = distribute_tensor(torch::ones({2, 3}), layout_on(mesh, {"-", "-"})).requires_grad_();
  const Tensor in_pieces = distribute_tensor(torch::ones({2, 3}), layout_on(mesh, {"x", "-"})).requires_grad_();
  Tensor whole = x * 1;
  const Tensor of_pieces = in_pieces.select(1, 0), row = whole.select(0, 0);
  whole.t_();
  row.sum().backward();
  EXPECT_TRUE(gather(x.grad()).equal(torch::tensor({1.0F, 1.0F, 1.0F, 0.0F, 0.0F, 0.0F}).view({2, 3})));
}

TEST(Geometry, ThatChangesInPlaceKeepsALazyConjugate) {
  const Tensor x = torch::complex(torch::ones({2, 1}), torch::arange(2.0F).view({2, 1}));
  for (const auto& axes : {kRowsCut, std::vector<std::string>{"-", "-"}})
    expect_like_one_device(x, axes, [](const Tensor& t) {
      Tensor conjugate = t.conj();
      conjugate.squeeze_(-1).unsqueeze_(0).swapaxes_(0, 1);
      EXPECT_TRUE(conjugate.is_conj() || !is_mesh_tensor(conjugate));
      return conjugate;
    });
}

TEST(Geometry, ThatAllReplicasShareIsNotChangedByOne) {
  for (const bool merge : {true, false}) {
    const Mesh mesh = line_of(2, merge);
    const Tensor x = distribute_tensor(torch::zeros({2, 3}), layout_on(mesh, {"-", "-"}));
    const ThreadViewGuard view({.replica = 1, .mesh = MeshShape::of(mesh)});
    EXPECT_EQ(code_of([&] { x.t_(); }), ErrorCode::failed_precondition);
    EXPECT_EQ(code_of([&] { x.resize_({2}); }), ErrorCode::failed_precondition);
    Tensor out = x;
    EXPECT_EQ(code_of([&] { torch::abs_out(out, torch::ones({5})); }), ErrorCode::failed_precondition);
    EXPECT_EQ(code_of([&] { at::_foreach_abs_out({out}, {torch::ones({5})}); }), ErrorCode::failed_precondition);
    torch::abs_out(out, -torch::ones({2, 3}));
    EXPECT_EQ(x.sum().item<double>(), 6);
    EXPECT_EQ((x + 1).sizes(), (std::vector<int64_t>{2, 3}));
  }
}

TEST(Views, OfComplexNumbersTakePiecesWithoutElements) {
  for (const bool merge : {true, false}) {
    const Tensor x = distribute_tensor(torch::arange(2.0).view({2, 1}), layout_on(line_of(2, merge), kColumnsCut));
    EXPECT_TRUE(gather(torch::view_as_complex(x.t())).equal(torch::view_as_complex(torch::arange(2.0).view({1, 2}))));
  }
}

// The strides of the whole decide, not those of a piece without elements.
TEST(Views, CopiesOfComplexNumbersTakeTensorsWithoutElements) {
  for (const bool merge : {true, false}) {
    const Layout layout = layout_on(line_of(2, merge), kCut);
    const Tensor x = distribute_tensor(torch::ones({2}), layout).expand({0, 2});
    EXPECT_EQ(at::view_as_complex_copy(x).sizes(), (std::vector<int64_t>{0}));
    const Tensor y = distribute_tensor(torch::ones({0, 5}), layout_on(line_of(2, merge), kRowsCut)).slice(1, 0, 2);
    EXPECT_THAT(what_of([&] { at::view_as_complex_copy(y); }), testing::HasSubstr("must have a stride divisible by 2"));
  }
}

TEST(Views, CopiesAreMadeOfThePiecesOfTheirViews) {
  const std::vector<TensorFunction> copies = {
      [](const Tensor& x) { return at::transpose_copy(x, 0, 1); },
      [](const Tensor& x) {
        return at::permute_copy(x, {2, 0, 1});
      },
      [](const Tensor& x) { return at::t_copy(x.select(1, 0)); },
      [](const Tensor& x) { return at::unsqueeze_copy(x, 0); },
      [](const Tensor& x) { return at::squeeze_copy(x.slice(1, 0, 1)); },
      [](const Tensor& x) { return at::squeeze_copy(x.slice(1, 0, 1), 1); },
      [](const Tensor& x) {
        return at::expand_copy(x, {2, 4, 2, 6});
      },
      [](const Tensor& x) {
        return at::view_copy(x, {4, 12});
      },
      [](const Tensor& x) { return at::view_copy(x, torch::kInt); },
      [](const Tensor& x) { return at::view_as_real_copy(torch::complex(x, x)); },
      [](const Tensor& x) { return at::select_copy(x, 1, 1); },
      [](const Tensor& x) { return at::unbind_copy(x, 1)[1]; },
      [](const Tensor& x) { return at::slice_copy(x, 2, 1, 5, 2); },
      [](const Tensor& x) { return at::split_copy(x, 4, 2)[1]; },
      [](const Tensor& x) {
        return at::split_with_sizes_copy(x, {1, 5}, 2)[1];
      },
      [](const Tensor& x) { return at::diagonal_copy(x, 0, 1, 2); },
      [](const Tensor& x) { return at::unfold_copy(x, 2, 3, 2); },
      [](const Tensor& x) { return at::alias_copy(x.transpose(1, 2)); },
      [](const Tensor& x) { return at::detach_copy(x); },
      [](const Tensor& x) { return at::_conj_copy(torch::complex(x, x)); },
      [](const Tensor& x) { return at::_neg_view_copy(x); },
  };
  const Tensor x = torch::randn({4, 2, 6});
  for (size_t i = 0; i < copies.size(); ++i) {
    SCOPED_TRACE(i);
    for (const int devices : {2, 8})
      expect_like_one_device(
          x, {"x", "-", "-"},
          [&](const Tensor& t) {
            const StrictMode strict;
            const Tensor copy = copies[i](t);
            EXPECT_EQ(copy.strides(), copies[i](x).strides());
            return copy;
          },
          devices);
  }
}

// LibTorch makes views of plain tensors without a function that repeats them, unless the program asks for those.
TEST(Views, OfPiecesWithoutElementsKeepALazyConjugate) {
  const Tensor one = torch::complex(torch::ones({1}), torch::ones({1}));
  expect_like_one_device(one, kCut, [](const Tensor& t) {
    const Tensor conjugate = t.conj(), view = conjugate.view({1});
    conjugate.mul_(torch::complex(torch::zeros({}), torch::ones({})));
    return view;
  });
}

TEST(Views, OfPlainTensorsAreMadeAsTheProgramSays) {
  const Tensor x = distribute_tensor(torch::arange(6.0), layout_on(line_of(2, /*merge=*/false), kCut));
  auto& state = c10::AutogradState::get_tls_state();
  x.view({2, 3});
  EXPECT_FALSE(state.get_view_replay_enabled());
  state.set_view_replay_enabled(true);
  x.view({2, 3});
  EXPECT_TRUE(state.get_view_replay_enabled());
  state.set_view_replay_enabled(false);
}

TEST(PlainOperands, StayInTheCallersMemory) {
  for (const bool merge : {true, false})
    for (const char* axis : {"x", "-"}) {
      SCOPED_TRACE(axis);
      float data[4] = {1, 2, 3, 4};
      const Tensor plain = torch::from_blob(data, {4});
      const Tensor x = distribute_tensor(torch::zeros({4}), layout_on(line_of(2, merge), {axis}));
      EXPECT_TRUE(gather(x + plain).equal(plain));
      EXPECT_EQ(plain.data_ptr(), data);
      data[0] = 100;
      EXPECT_EQ(plain[0].item<float>(), 100);
      EXPECT_EQ(gather(x + plain)[0].item<float>(), 100);
    }
}

TEST(Storage, OfACopyIsNotWritten) {
  const Mesh mesh = line_of(2, /*merge=*/false);
  const Tensor x = distribute_tensor(torch::arange(4.0), layout_on(mesh, {"x"}));
  EXPECT_EQ(static_cast<const float*>(x.storage().data())[3], 3);
  EXPECT_THROW(x.storage().mutable_data(), c10::Error);  // it would not reach x
}

TEST(Conversions, ToANamedDeviceGatherNothingInStrictMode) {
  for (const bool merge : {true, false}) {
    const Tensor x = distribute_tensor(torch::arange(4.0), layout_on(line_of(2, merge), {"x"}));
    EXPECT_FALSE(is_mesh_tensor(x.to(torch::kCPU)));
    const StrictMode strict;
    EXPECT_EQ(code_of([&] { x.to(torch::kCPU); }), ErrorCode::failed_precondition);
    EXPECT_EQ(code_of([&] { x.to(x.device(), torch::kDouble); }), ErrorCode::failed_precondition);
    EXPECT_FALSE(is_mesh_tensor(gather(x).to(torch::kCPU)));
  }
}

}  // namespace
}  // namespace tutti::rules
