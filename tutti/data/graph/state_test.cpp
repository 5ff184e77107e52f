#include "tutti/data/graph/state.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

const auto kTable = std::make_shared<const Table>(std::vector<Leaf>{Leaf(at::arange(6).view({3, 2}))});

// One of everything.
Tensor written() {
  StateWriter writer({kTable});
  writer.number(-7);
  writer.text("Zürich");
  writer.element(Element(kTable, 2));
  const Keys keys = std::make_shared<const Keys::element_type>(Keys::element_type{{"a", "b"}});
  writer.element(Element({Leaf(at::ones({2, 3}, at::kHalf)), Leaf(Strings({"x", "yz"}, {1, 2}))}, keys));
  writer.element(Element({Leaf(from_elements({Element(kTable, 1), Element({Leaf(Strings("z"))})}))}));
  return writer.finish();
}

void read(const Tensor& state) {
  StateReader reader(state, {kTable});
  reader.number();
  reader.text();
  reader.element();
  reader.element();
  reader.element();
  reader.finish();
}

TEST(GraphState, ComesBackAsItWas) {
  StateReader reader(written(), {kTable});
  EXPECT_EQ(reader.number(), -7);
  EXPECT_EQ(reader.text(), "Zürich");
  const Element row = reader.element();
  EXPECT_EQ(row.table(), kTable.get());
  EXPECT_EQ(row.row(), 2);
  const Element element = reader.element();
  EXPECT_TRUE(std::get<Tensor>(element.leaves()[0]).equal(at::ones({2, 3}, at::kHalf)));
  EXPECT_EQ(std::get<Strings>(element.leaves()[1]), Strings({"x", "yz"}, {1, 2}));
  EXPECT_EQ(element.keys()->front(), (std::vector<std::string>{"a", "b"}));
  const NodePtr dataset = std::get<NodePtr>(reader.element().leaves()[0]);
  ASSERT_EQ(dataset->elements->size(), 2U);
  EXPECT_EQ(dataset->elements->front().row(), 1);
  EXPECT_EQ(std::get<Strings>(dataset->elements->back().leaves()[0]), Strings("z"));
  reader.finish();
}

TEST(GraphState, EveryTruncationIsNoticed) {
  const Tensor whole = written();
  for (int64_t size = 0; size < whole.numel(); ++size)
    EXPECT_EQ(code_of([&] { read(whole.narrow(0, 0, size)); }), ErrorCode::data_loss) << size;
}

TEST(GraphState, DamageNeverCrashes) {
  for (int64_t at = 0; at < written().numel(); ++at)
    for (const int value : {0, 1, 127, 255}) {
      const Tensor state = written();
      state[at] = value;
      try {
        read(state);  // bytes of values may be any
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::data_loss) << error.what();
      }
    }
}

TEST(GraphState, ADatasetThatAFunctionMadeIsRefused) {
  StateWriter writer({});
  EXPECT_EQ(code_of([&] { writer.leaf(Leaf(range(0, 3, 1))); }), ErrorCode::failed_precondition);
}

TEST(GraphState, DatasetsInDatasetsEndSomewhere) {
  StateWriter writer({});
  NodePtr dataset = from_elements({});
  for (int depth = 0; depth < 100; ++depth) dataset = from_elements({Element({Leaf(dataset)})});
  writer.leaf(Leaf(dataset));
  EXPECT_EQ(code_of([&] { StateReader(writer.finish(), {}).leaf(); }), ErrorCode::data_loss);
}

TEST(GraphState, BytesThatBelongToNothingAreNoticed) {
  StateWriter writer({});
  writer.number(1);
  writer.number(2);
  StateReader reader(writer.finish(), {});
  reader.number();
  EXPECT_EQ(code_of([&] { reader.finish(); }), ErrorCode::data_loss);
}

}  // namespace
}  // namespace tutti::data::graph
