#include "tutti/mesh/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using Shape = Layout::Shape;

class LayoutOf24 : public testing::Test {
 protected:
  Mesh mesh_{{{"x", 2}, {"y", 4}}, configure_logical_cpus(8)};

  Layout layout(const std::vector<std::string>& specs, const std::vector<std::string>& unreduced = {}) {
    return Layout(specs, mesh_, unreduced);
  }
};

TEST_F(LayoutOf24, CutsInPiecesOfTheCeiling) {
  const Layout rows = layout({"y", kUnsharded});
  const auto length = [&](int64_t size, int64_t device) { return rows.local_shape_from_global_shape({size, 3}, device)[0]; };
  const auto offset = [&](int64_t size, int64_t device) { return rows.local_offset({size, 3}, device)[0]; };
  std::vector<int64_t> lengths, offsets;
  for (int64_t device = 0; device < 4; ++device) {
    lengths.push_back(length(5, device));
    offsets.push_back(offset(5, device));
  }
  EXPECT_EQ(lengths, (std::vector<int64_t>{2, 2, 1, 0}));
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 2, 4, 5}));
  EXPECT_EQ(length(5, 5), 2);  // in the second row of devices again
  EXPECT_EQ(length(0, 0), 0);
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(offset(kLargest, 3) + length(kLargest, 3), kLargest);
}

TEST_F(LayoutOf24, FindsTheShapeThatPiecesMake) {
  const auto shapes_of = [&](const Layout& layout, const Shape& global) {
    std::vector<Shape> shapes;
    for (int64_t device = 0; device < 8; ++device) shapes.push_back(layout.local_shape_from_global_shape(global, device));
    return shapes;
  };
  for (const auto& specs : std::vector<std::vector<std::string>>{{"x", "y"}, {"y", "x"}, {kUnsharded, "y"}, {"x", kUnsharded}})
    for (const Shape global : {Shape{8, 4}, Shape{5, 7}, Shape{1, 0}, Shape{3, 2}}) {
      const Layout each = layout(specs);
      EXPECT_EQ(each.global_shape_from_local_shapes(shapes_of(each, global)), global) << each.to_string();
    }
  auto shapes = shapes_of(layout({"x", "y"}), {5, 7});
  shapes[6] = {2, 1};
  EXPECT_EQ(error_of([&] { layout({"x", "y"}).global_shape_from_local_shapes(shapes); }),
            "invalid_argument: Layout: component 6 has shape [2, 1]; in the layout [x, y] on <x=2, y=4> a tensor of "
            "shape [5, 7] has there [2, 2]");
  shapes.pop_back();
  EXPECT_THAT(error_of([&] { layout({"x", "y"}).global_shape_from_local_shapes(shapes); }), HasSubstr("7 components"));
  shapes.push_back({1});
  EXPECT_THAT(error_of([&] { layout({"x", "y"}).global_shape_from_local_shapes(shapes); }),
              HasSubstr("component 7 has shape [1], of rank 1"));
  const std::vector<Shape> huge(8, Shape{int64_t{1} << 61});
  EXPECT_THAT(error_of([&] { layout({"y"}).global_shape_from_local_shapes(huge); }), HasSubstr("64 bits"));
  EXPECT_THAT(error_of([&] { layout({"y"}).global_shape_from_local_shape(huge[0]); }), HasSubstr("64 bits"));
}

TEST_F(LayoutOf24, CountsShards) {
  EXPECT_EQ(layout({"y", kUnsharded}).num_shards(0), 4);
  EXPECT_EQ(layout({"y", kUnsharded}).num_shards(-1), 1);
  EXPECT_EQ(layout({"y", "x"}).offset_to_shard()[6], (Shape{2, 1}));
  EXPECT_EQ(code_of([&] { layout({"y"}).num_shards(1); }), ErrorCode::out_of_range);
}

TEST_F(LayoutOf24, IsMadeForOneAxis) {
  EXPECT_EQ(Layout::batch_sharded(mesh_, "x", 3), layout({"x", kUnsharded, kUnsharded}));
  EXPECT_EQ(Layout::batch_sharded(mesh_, "x", 3, 1), layout({kUnsharded, "x", kUnsharded}));
  EXPECT_EQ(Layout::inner_sharded(mesh_, "y", 2), layout({kUnsharded, "y"}));
  EXPECT_TRUE(Layout::batch_sharded(mesh_, "x", 2).is_batch_parallel());
  EXPECT_FALSE(layout({"x", "y"}).is_batch_parallel());
  EXPECT_FALSE(layout({}).is_batch_parallel());
  for (const int axis : {-1, 2}) {
    EXPECT_EQ(code_of([&] { Layout::batch_sharded(mesh_, "x", 2, axis); }), ErrorCode::invalid_argument);
  }
  EXPECT_EQ(code_of([&] { Layout::inner_sharded(mesh_, "x", 0); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { Layout::replicated(mesh_, -1); }), ErrorCode::invalid_argument);
}

TEST_F(LayoutOf24, LosesAxes) {
  const Layout three = layout({"x", kUnsharded, "y"});
  EXPECT_EQ(three.delete_axes({0}), layout({kUnsharded, "y"}));
  EXPECT_EQ(three.delete_axes({-1, 1}), layout({"x"}));
  EXPECT_EQ(layout({"x"}, {"y"}).delete_axes({0}), layout({}, {"y"}));
  EXPECT_EQ(code_of([&] { three.delete_axes({3}); }), ErrorCode::out_of_range);
  EXPECT_EQ(code_of([&] { three.delete_axes({0, -3}); }), ErrorCode::invalid_argument);
}

TEST_F(LayoutOf24, MatchTakesTheEntryOfAnother) {
  const Layout target = layout({kMatch, kUnsharded});
  EXPECT_TRUE(target.has_match());
  EXPECT_FALSE(target.is_replicated());
  EXPECT_EQ(target.matched(layout({"x", "y"})), layout({"x", kUnsharded}));
  EXPECT_EQ(layout({"x"}).matched(layout({"y"})), layout({"x"}));
  EXPECT_EQ(code_of([&] { layout({kMatch, "x"}).matched(layout({"x", kUnsharded})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { target.matched(layout({"x"})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { target.local_shape_from_global_shape({8, 4}); }), ErrorCode::invalid_argument);
}

TEST_F(LayoutOf24, RefusesUnknownAndRepeatedDimensions) {
  EXPECT_THAT(error_of([&] { layout({"z"}); }), HasSubstr("no dimension \"z\" in <x=2, y=4>"));
  EXPECT_THAT(error_of([&] { layout({"x", "x"}); }), HasSubstr("\"x\" is used twice"));
  EXPECT_THAT(error_of([&] { layout({"x"}, {"x"}); }), HasSubstr("\"x\" is used twice"));
}

TEST_F(LayoutOf24, IsItsText) {
  for (const Layout& each : {layout({}), layout({"x", kUnsharded}), layout({kMatch, "y"}), layout({}, {"x", "y"}),
                             layout({kUnsharded, "y"}, {"x"})})
    EXPECT_EQ(Layout::parse(each.serialize()), each) << each.serialize();
  EXPECT_THAT(layout({kUnsharded, "y"}, {"x"}).serialize(), testing::StartsWith("sharding_specs:unsharded,y, unreduced:x, mesh:|"));
}

TEST_F(LayoutOf24, TextOfUnknownOriginIsRefusedWithThePlace) {
  const std::string mesh = mesh_.serialize();
  EXPECT_THAT(error_of([&] { Layout::parse("sharding_specs:x mesh:" + mesh); }), HasSubstr("(at character 16)"));
  for (const std::string& text :
       {std::string(), std::string("sharding_specs:"), std::string("sharding_specs:x,"), std::string("sharding_specs:x, mesh:"),
        "sharding_specs:x,x, mesh:" + mesh, "sharding_specs:w, mesh:" + mesh, "sharding_specs:,, mesh:" + mesh,
        "x, mesh:" + mesh, "sharding_specs:x, unreduced:x, mesh:" + mesh, "sharding_specs:x, unreduced:y,mesh:" + mesh,
        "sharding_specs:x, mesh:" + mesh + "|more", "parted:x, mesh:" + mesh, "maximal:true, mesh:CPU:0",
        "sharding_specs:" + std::string(10000, ','), "empty_layout"})
    EXPECT_EQ(code_of([&] { Layout::parse(text); }), ErrorCode::invalid_argument) << text;
}

}  // namespace
}  // namespace tutti
