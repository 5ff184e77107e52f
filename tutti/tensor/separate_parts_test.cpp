#include "tutti/tensor/separate_parts.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tutti/collectives/communications.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

bool reports_all_reduce(const char* cause) {
  const auto all = communications();
  return std::any_of(all.begin(), all.end(), [&](const Communication& c) {
    return c.op == "all_reduce" && c.cause == cause && c.implied && c.bytes > 0;
  });
}

// One call on joined parts rounds as one device does; eight sums and the sum of these do not.
TEST(SeparateParts, SmallOnesAreJoined) {
  at::manual_seed(3);
  const Tensor a = at::randn({640, 48}), b = at::randn({640, 3});
  const Tensor sum = a.sum(0), product = a.t().mm(b);
  for (const bool joined : {true, false}) {
    const Mesh mesh({{"x", 8}}, configure_logical_cpus(8), {.merge = false, .name = joined ? "joined" : "in_parts"});
    const std::optional<SeparateParts> apart = joined ? std::nullopt : std::optional<SeparateParts>(std::in_place);
    const Layout rows({"x", kUnsharded}, mesh);
    const Tensor mesh_a = distribute_tensor(a, rows), mesh_b = distribute_tensor(b, rows);
    reset_communications();
    EXPECT_EQ(at::equal(gather(mesh_a.sum(0)), sum), joined);
    const Tensor mesh_product = gather(mesh_a.t().mm(mesh_b));
    EXPECT_TRUE(joined ? at::equal(mesh_product, product) : at::allclose(mesh_product, product, 1e-4, 1e-4));
    EXPECT_TRUE(reports_all_reduce("aten::sum"));
    EXPECT_TRUE(reports_all_reduce("aten::mm"));
  }
}

}  // namespace
}  // namespace tutti
