#include "tutti/tensor/cut.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tutti/device/logical_devices.h"

namespace tutti {
namespace {

using testing::ElementsAre;

class Cuts : public testing::Test {
 protected:
  const MeshShape* shape_ = MeshShape::of(Mesh({{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = false}));
  const Tensor value_ = at::arange(5.0);

  static std::vector<double> elements(const Tensor& piece) {
    std::vector<double> all;
    for (int64_t i = 0; i < piece.numel(); ++i) all.push_back(piece[i].item<double>());
    return all;
  }
};

TEST_F(Cuts, AreViewsInSharedMemory) {
  const Components pieces = cut(value_, intern(shape_, {0}, 0, {5}));
  ASSERT_EQ(pieces.size(), 2);
  EXPECT_THAT(elements(pieces[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(elements(pieces[1]), ElementsAre(3, 4));
  EXPECT_TRUE(std::ranges::all_of(pieces, [&](const Tensor& piece) { return piece.is_alias_of(value_); }));
}

TEST_F(Cuts, ThatAreOwnedHaveMemoryOfTheirOwn) {
  const Components pieces = own_pieces(value_, intern(shape_, {0}, 0, {5}));
  EXPECT_THAT(elements(pieces[1]), ElementsAre(3, 4));
  for (const Tensor& piece : pieces) EXPECT_EQ(piece.storage().nbytes(), piece.nbytes());
}

TEST_F(Cuts, OfASumPutTheValueInOneTerm) {
  const Spec* terms = intern(shape_, {0}, /*unreduced=*/2, {5});
  Components pieces;
  for (int i = 0; i < terms->num_components; ++i)
    pieces.push_back(at::zeros({terms->length(i, 0)}, at::kDouble).add(7));
  put(value_.to(at::kDouble), terms, pieces);
  EXPECT_THAT(elements(pieces[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(elements(pieces[1]), ElementsAre(0, 0, 0));
  EXPECT_THAT(elements(pieces[2]), ElementsAre(3, 4));
  EXPECT_THAT(elements(pieces[3]), ElementsAre(0, 0));
}

TEST_F(Cuts, OfASumKeepTheSignOfZero) {
  const Spec* terms = intern(shape_, {0}, /*unreduced=*/2, {5});
  const Components pieces = own_pieces(value_, terms);
  put(value_ * -0.0, terms, pieces);
  EXPECT_TRUE((pieces[0] + pieces[1]).signbit().all().item<bool>());
}

TEST_F(Cuts, GiveEveryDeviceItsPiece) {
  const Spec* rows = intern(shape_, {0}, 0, {5});
  const Components held = replica_pieces(rows, cut(value_, rows));
  ASSERT_EQ(held.size(), 4);
  EXPECT_THAT(elements(held[1]), ElementsAre(0, 1, 2));
  EXPECT_THAT(elements(held[2]), ElementsAre(3, 4));
}

// One buffer holds the whole, and a device is shown its part of it.
TEST_F(Cuts, GiveEveryDeviceItsPartOfAMergedBuffer) {
  const MeshShape* merged = MeshShape::of(Mesh({{"x", 2}}, configure_logical_cpus(2)));
  const Spec* rows = intern(merged, {0}, 0, {5});
  const Components held = replica_pieces(rows, {value_});
  EXPECT_THAT(elements(held[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(elements(held[1]), ElementsAre(3, 4));
  EXPECT_TRUE(held[1].is_alias_of(value_));
}

}  // namespace
}  // namespace tutti
