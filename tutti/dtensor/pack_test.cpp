#include "tutti/dtensor/pack.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/default_mesh.h"
#include "tutti/dtensor/fetch_layout.h"
#include "tutti/dtensor/relayout.h"

namespace tutti::dtensor {
namespace {

using testing::HasSubstr;

class Pack : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh_{{{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = GetParam()}};

  Layout layout(const std::vector<std::string>& specs, const std::vector<std::string>& unreduced = {}) {
    return Layout(specs, mesh_, unreduced);
  }
};

INSTANTIATE_TEST_SUITE_P(Buffers, Pack, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST_P(Pack, JoinsUnevenPieces) {
  const Tensor value = at::arange(15).view({5, 3});
  for (const auto& specs :
       std::vector<std::vector<std::string>>{{"x", "y"}, {"y", kUnsharded}, {kUnsharded, kUnsharded}}) {
    const auto components = unpack(shard(value, layout(specs)));
    ASSERT_EQ(components.size(), 4);
    const Tensor packed = pack(components, layout(specs), {.check_copies = true});
    EXPECT_TRUE(at::equal(gather(packed), value));
    EXPECT_EQ(fetch_layout(packed), layout(specs));
  }
  const auto corner = unpack(shard(value, layout({"x", "y"})))[3];
  EXPECT_TRUE(at::equal(corner, value.slice(0, 3).slice(1, 2)));
}

TEST_P(Pack, ComparesCopiesOfHalvesOfComplexNumbers) {
  const Tensor half = at::zeros({2}, at::kComplexHalf);
  EXPECT_EQ(pack({half, half, half, half}, layout({kUnsharded}), {.check_copies = true}).scalar_type(),
            at::kComplexHalf);
}

TEST_P(Pack, CopiesTheComponents) {
  const Tensor component = at::zeros({2});
  const Tensor packed = pack({component, component, component, component}, layout({"x"}));
  component.fill_(7);
  EXPECT_TRUE(at::equal(gather(packed), at::zeros({4})));
}

TEST_P(Pack, SumsTheTermsOfAnUnreducedLayout) {
  std::vector<Tensor> terms;
  for (int device = 0; device < 4; ++device) terms.push_back(at::full({2}, device + 1.0));
  const Tensor both = pack(terms, layout({kUnsharded}, {"x", "y"}));
  EXPECT_TRUE(at::equal(gather(both), at::full({2}, 10.0)));
  // Along x terms 1 + 3 and 2 + 4, along y pieces.
  const Tensor one = pack(terms, layout({"y"}, {"x"}));
  EXPECT_TRUE(at::equal(gather(one).slice(0, 0, 2), at::full({2}, 4.0)));
  EXPECT_TRUE(at::equal(gather(one).slice(0, 2, 4), at::full({2}, 6.0)));
}

TEST_P(Pack, LiesAsItsTermsDo) {
  const Tensor term = at::arange(6.0).view({2, 3}).t();
  const Tensor sum = pack({term, term, term, term}, layout({kUnsharded, kUnsharded}, {"x"}));
  EXPECT_EQ(sum.strides(), term.strides());
  EXPECT_TRUE(at::equal(gather(sum), term * 2));
}

TEST_P(Pack, WorksInScopes) {
  const auto guard = default_mesh(mesh_);
  const Tensor component = gather(at::zeros({2}));
  EXPECT_EQ(fetch_layout(pack({component, component, component, component}, layout({"x"}))), layout({"x"}));
}

TEST_P(Pack, NamesTheComponentThatDoesNotFit) {
  const Tensor fine = at::zeros({2});
  const auto with_third = [&](const Tensor& third, PackOptions options = {}) {
    return error_of([&] { pack({fine, fine, third, fine}, layout({"y"}), options); });
  };
  EXPECT_EQ(with_third(fine), "no error");
  EXPECT_THAT(with_third(at::zeros({3})), HasSubstr("component 2 has shape [3]"));
  EXPECT_THAT(with_third(at::zeros({2, 1})), HasSubstr("component 2 has shape [2, 1], of rank 2"));
  EXPECT_THAT(with_third(at::zeros({2}, at::kLong)), HasSubstr("component 2 is CPULongType"));
  EXPECT_THAT(with_third(at::zeros({2}).set_requires_grad(true)), HasSubstr("component 2 needs a gradient"));
  EXPECT_THAT(with_third(shard(fine, layout({"x"}))), HasSubstr("component 2 is a mesh tensor"));
  EXPECT_THAT(with_third(Tensor()), HasSubstr("component 2 is undefined"));
  EXPECT_THAT(with_third(at::full({2}, 1.0), {.check_copies = true}), HasSubstr("components 0 and 2 differ"));
  EXPECT_THAT(error_of([&] { pack({fine}, layout({"y"})); }),
              HasSubstr("1 components for the 4 devices of <x=2, y=2>"));
  EXPECT_EQ(code_of([&] { pack({fine, fine, fine, fine}, layout({kMatch})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { unpack(fine); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::dtensor
