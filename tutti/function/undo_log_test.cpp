#include "tutti/function/undo_log.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tutti/function/memory_watch.h"

namespace tutti {
namespace {

TEST(UndoLog, PutsBackMemoryGeometryAndVersions) {
  Tensor x = at::arange(6).view({2, 3});
  const Tensor row = x.select(0, 1);
  const int64_t version = x._version();
  UndoLog log;
  log.before_write(row);
  row.add_(10);
  log.before_write(x);
  x.resize_({100}).zero_();
  log.undo();
  EXPECT_TRUE(x.equal(at::arange(6).view({2, 3})));
  EXPECT_EQ(x.storage().nbytes(), 48U);
  EXPECT_EQ(x._version(), version);
}

TEST(UndoLog, ReachesMemoryThatIsClosed) {
  if (!memory_can_be_watched()) GTEST_SKIP() << "with LibTorch 2.13 or later";
  Tensor x = at::arange(4);
  UndoLog log;
  forbid_access(*x.storage().unsafeGetStorageImpl());
  log.before_write(x);
  open_to_access(*x.storage().unsafeGetStorageImpl());
  x.zero_();
  forbid_access(*x.storage().unsafeGetStorageImpl());
  log.undo();
  open_to_access(*x.storage().unsafeGetStorageImpl());
  EXPECT_TRUE(x.equal(at::arange(4)));
}

TEST(UndoLog, PutsBackMemoryThatSeveralStoragesShow) {
  const Tensor x = at::arange(4);
  const Tensor same = at::from_blob(x.mutable_data_ptr(), {4}, at::kLong);
  UndoLog log;
  log.before_write(x);
  x.add_(5);
  log.before_write(same);
  same.mul_(2);
  log.undo();
  EXPECT_TRUE(x.equal(at::arange(4)));
}

TEST(UndoLog, PutsBackGenerators) {
  auto own = at::make_generator<at::CPUGeneratorImpl>(5), same = at::make_generator<at::CPUGeneratorImpl>(5);
  at::manual_seed(3);
  UndoLog log;
  const Tensor drawn = at::rand({4});
  log.before_draw(own);
  Tensor x = at::zeros({4});
  x.uniform_(0, 1, own);
  log.before_draw(own);  // again, when some were drawn
  x.uniform_(0, 1, own);
  log.undo();
  EXPECT_TRUE(at::rand({4}).equal(drawn));
  EXPECT_TRUE(x.uniform_(0, 1, own).equal(at::zeros({4}).uniform_(0, 1, same)));
}

}  // namespace
}  // namespace tutti
