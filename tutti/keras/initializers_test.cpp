#include "tutti/keras/initializers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::initializers {
namespace {

double largest(const Tensor& x) { return x.abs().max().item<double>(); }
double stddev(const Tensor& x) { return x.std().item<double>(); }

TEST(Initializers, ConstantsAreConstant) {
  EXPECT_EQ(Constant(-0.5)({2, 3}).sum().item<double>(), -3);
  EXPECT_EQ(Ones()({4}).sum().item<double>(), 4);
  EXPECT_EQ(Zeros()({4}, at::kDouble).scalar_type(), at::kDouble);
}

TEST(Initializers, GlorotUniformFillsItsRange) {
  const double limit = std::sqrt(6.0 / (300 + 200));
  const Tensor x = GlorotUniform()({300, 200});
  EXPECT_LE(largest(x), limit);
  EXPECT_GT(largest(x), 0.99 * limit);
  EXPECT_NEAR(stddev(x), limit / std::sqrt(3), 0.01 * limit);
}

TEST(Initializers, FansOfAKernelCountItsReceptiveField) {
  EXPECT_NEAR(stddev(LecunNormal()({5, 5, 8, 100})), 1 / std::sqrt(25 * 8), 0.002);
  EXPECT_NEAR(stddev(HeNormal()({5, 5, 8, 100})), std::sqrt(2.0 / (25 * 8)), 0.003);
  EXPECT_NEAR(stddev(GlorotNormal()({5, 5, 8, 100})), std::sqrt(2.0 / (25 * 108)), 0.001);
  EXPECT_LE(largest(HeUniform()({400})), std::sqrt(6.0 / 400));
  EXPECT_LE(largest(LecunUniform()({400, 3})), std::sqrt(3.0 / 400));
}

TEST(Initializers, TruncatedNormalEndsAtTwoDeviations) {
  const Tensor x = TruncatedNormal({.mean = 1, .stddev = 0.5})({100'000});
  EXPECT_LE(largest(x - 1), 1 + 1e-5);
  EXPECT_NEAR(x.mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(stddev(x), 0.5 * 0.8796, 0.01);
  EXPECT_GT(largest(RandomNormal({.stddev = 0.5})({100'000})), 1.5);
  EXPECT_LE(largest(RandomUniform()({1000})), 0.05);
}

TEST(Initializers, OrthogonalHasOrthonormalRowsOrColumns) {
  const Tensor tall = Orthogonal()({3, 2, 4});
  EXPECT_TRUE(at::allclose(tall.view({6, 4}).t().mm(tall.view({6, 4})), at::eye(4), 1e-4, 1e-5));
  const Tensor wide = Orthogonal(0.5)({3, 5}, at::kDouble);
  EXPECT_TRUE(at::allclose(wide.mm(wide.t()), 0.25 * at::eye(3, at::kDouble)));
  EXPECT_THAT(error_of([] { Orthogonal()({3}); }), testing::HasSubstr("it must have at least two axes"));
}

TEST(Initializers, DrawInHalfPrecisionAsInFloat32) {
  for (const auto dtype : {at::kHalf, at::kBFloat16})
    for (const Initializer& initializer : std::vector<Initializer>{Orthogonal(), TruncatedNormal(), RandomNormal(),
                                                                   RandomUniform(), GlorotUniform(), Identity(0.3)}) {
      set_random_seed(7);
      const Tensor half = initializer({6, 4}, dtype);
      set_random_seed(7);
      EXPECT_TRUE(at::equal(half, initializer({6, 4}).to(dtype))) << initializer.name();
    }
}

// Each element has mean 0; the first one of what a decomposition returns is always negative.
TEST(Initializers, OrthogonalIsUniform) {
  double sum = 0;
  for (int i = 0; i < 300; ++i) sum += Orthogonal()({2, 2})[0][0].item<double>();
  EXPECT_NEAR(sum / 300, 0, 0.2);
}

TEST(Initializers, WithASeedGiveTheSameNumbersEachTime) {
  for (const Seed seed : {1, 2})
    for (const Initializer& make :
         {Initializer(RandomNormal({.seed = seed})), Initializer(TruncatedNormal({.seed = seed})),
          Initializer(RandomUniform({.seed = seed})), Initializer(GlorotUniform({.seed = seed})),
          Initializer(HeNormal({.seed = seed})), Initializer(Orthogonal(1, seed))}) {
      EXPECT_TRUE(at::equal(make({3, 4}), make({3, 4}))) << make.name();
      EXPECT_FALSE(at::equal(make({3, 4}), RandomNormal({.seed = 3})({3, 4}))) << make.name();
    }
  EXPECT_FALSE(at::equal(GlorotUniform({.seed = 1})({3, 4}), GlorotUniform({.seed = 2})({3, 4})));
  EXPECT_FALSE(at::equal(GlorotUniform()({3, 4}), GlorotUniform()({3, 4})));
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Tensor made = strategy.build([] { return GlorotUniform({.seed = 1})({3, 4}); });
  EXPECT_TRUE(at::equal(gather(made), GlorotUniform({.seed = 1})({3, 4})));
}

TEST(Initializers, IdentityIsOneOnTheDiagonal) {
  EXPECT_TRUE(at::equal(Identity(3)({2, 4}), 3 * at::eye(2, 4)));
  EXPECT_THAT(error_of([] { Identity()({2, 2, 2}); }), testing::HasSubstr("identity: the shape is (2, 2, 2)"));
  EXPECT_THAT(error_of([] { VarianceScaling({.scale = 0}); }), testing::HasSubstr("scale is 0"));
}

TEST(Initializers, OfAMeshAreWhatOneDeviceDraws) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  for (const Initializer& initializer : std::vector<Initializer>{Orthogonal(), Identity(), GlorotNormal()}) {
    set_random_seed(7);
    const Tensor one = initializer({3, 4});
    set_random_seed(7);
    const Tensor mirrored = strategy.build([&] { return initializer({3, 4}); });
    EXPECT_TRUE(is_mesh_tensor(mirrored)) << initializer.name();
    EXPECT_TRUE(at::equal(gather(mirrored), one)) << initializer.name();
  }
}

TEST(Initializers, KnowTheirKerasNames) {
  EXPECT_EQ(GlorotUniform().name(), "glorot_uniform");
  EXPECT_EQ(VarianceScaling().name(), "variance_scaling");
}

}  // namespace
}  // namespace tutti::keras::initializers
