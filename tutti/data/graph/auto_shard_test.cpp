#include "tutti/data/graph/auto_shard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/support/dataset_values.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/file_records.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/rebatch_for_replicas.h"
#include "tutti/data/graph/replica_steps.h"

namespace tutti::data {
namespace {

using graph::auto_shard;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A "file" x has two records, x0 and x1.
class TwoRecords : public graph::RecordReader {
 public:
  explicit TwoRecords(const std::filesystem::path& file) : file_(file) {}
  bool next(graph::Element& record) override {
    if (next_ == 2) return false;
    record = graph::Element({Strings(str(file_.string(), next_++))});
    return true;
  }

 private:
  std::filesystem::path file_;
  int next_ = 0;
};

Dataset<Strings> reader(std::vector<std::filesystem::path> files) {
  return Dataset<Strings>(graph::read_files(
      std::move(files), "two_records", [](const auto& file) { return std::make_unique<TwoRecords>(file); },
      graph::kNotBatched));
}

Dataset<Strings> names() { return from_tensor_slices(Strings({"a", "b", "c", "d", "e"}, {5})); }
Dataset<Strings> reader_of(const Strings& name) { return reader({name.item()}); }

template <class T>
Dataset<T> under(AutoShardPolicy policy, const Dataset<T>& dataset) {
  return dataset.with_options({.auto_shard_policy = policy});
}

template <class T>
Dataset<T> part(const Dataset<T>& dataset, int num_pipelines, int index) {
  return Dataset<T>(
      auto_shard(dataset.node(), {.num_pipelines = num_pipelines, .index = index, .num_replicas = num_pipelines}));
}

std::vector<std::string> text(const Dataset<Strings>& dataset) {
  std::vector<std::string> all;
  for (const Strings& element : dataset) all.push_back(element.item());
  return all;
}

std::vector<double> flat(const Dataset<Tensor>& dataset) {
  std::vector<double> all;
  for (const auto& element : numbers(dataset)) all.insert(all.end(), element.begin(), element.end());
  return all;
}

TEST(AutoShard, ByFileGivesAReaderEveryNthFile) {
  const auto dataset = under(AutoShardPolicy::file, reader({"a", "b", "c"}));
  EXPECT_THAT(text(part(dataset, 2, 0)), ElementsAre("a0", "a1", "c0", "c1"));
  EXPECT_THAT(text(part(dataset, 2, 1)), ElementsAre("b0", "b1"));
  EXPECT_EQ(part(dataset, 1, 0).node(), dataset.node());
}

TEST(AutoShard, ByFileReachesEachInputOfAConcatenation) {
  const auto dataset = reader({"a", "b"}).concatenate(reader({"c", "d"})).take(3);
  EXPECT_THAT(text(part(dataset, 2, 1)), ElementsAre("b0", "b1", "d0"));
}

TEST(AutoShard, ByFileDividesTheNamesWhereAFunctionReadsFiles) {
  EXPECT_THAT(text(part(names().flat_map(reader_of), 2, 1)), ElementsAre("b0", "b1", "d0", "d1"));
  EXPECT_THAT(text(part(names().interleave(reader_of, {.cycle_length = 2}), 2, 0)),
              ElementsAre("a0", "c0", "a1", "c1", "e0", "e1"));
  const auto nested = names().flat_map([](const Strings& name) { return from_tensors(name).flat_map(reader_of); });
  EXPECT_THAT(text(part(nested, 3, 2)), ElementsAre("c0", "c1"));
}

// Shards of differently shuffled names would overlap.
TEST(AutoShard, ByFileShufflesTheNamesOfAShardAlone) {
  const auto dataset = names().shuffle(5).map([](const Strings& name) { return name; }).flat_map(reader_of);
  std::vector<std::string> shard = text(part(dataset, 2, 0));
  std::ranges::sort(shard);
  EXPECT_THAT(shard, ElementsAre("a0", "a1", "c0", "c1", "e0", "e1"));
}

TEST(AutoShard, ARebuiltShuffleGoesOnWithItsOrder) {
  const auto passes = [](bool rebuilt) {
    std::vector<std::vector<std::string>> all;
    const auto shuffled = names().shuffle(5, {.seed = 7});
    for (int pass = 0; pass < 3; ++pass)
      all.push_back(text(rebuilt ? Dataset<Strings>(shuffled.node()->rebuild({names().node()})) : shuffled));
    return all;
  };
  EXPECT_EQ(passes(true), passes(false));
}

TEST(AutoShard, ByFileRefusesElementsFromElsewhere) {
  const auto refused = [](const auto& dataset) {
    return error_of([&] { part(under(AutoShardPolicy::file, dataset), 2, 0); });
  };
  EXPECT_THAT(refused(range(4)), HasSubstr("not_found"));
  EXPECT_THAT(refused(reader({"a", "b"}).enumerate()), HasSubstr("not_found"));
  EXPECT_THAT(refused(reader({"a", "b"}).concatenate(names())), HasSubstr("not_found"));
  EXPECT_THAT(refused(names().flat_map([](const Strings& name) { return from_tensors(name); })),
              HasSubstr("not_found"));
  EXPECT_EQ(flat(part(under(AutoShardPolicy::file, range(2)), 1, 0)), (std::vector<double>{0, 1}));
}

TEST(AutoShard, AsksForAFileForEachPipeline) {
  const auto read = reader({"a", "b"});
  EXPECT_THAT(error_of([&] { text(part(read, 3, 1)); }),
              HasSubstr("invalid_argument: auto-sharding: a reader of 2 files"));
  EXPECT_THAT(text(part(read, 3, 2)), IsEmpty());
  const auto mapped = names().take(2).flat_map(reader_of);
  EXPECT_THAT(error_of([&] { text(part(mapped, 3, 0)); }),
              HasSubstr("invalid_argument: auto-sharding: the dataset has 2"));
  EXPECT_THAT(text(part(mapped, 3, 2)), IsEmpty());
}

TEST(AutoShard, ByDataTakesEveryNthElementBeforeAPrefetch) {
  const auto dataset = under(AutoShardPolicy::data, range(6)).prefetch(1);
  const auto odd = part(dataset, 2, 1);
  EXPECT_EQ(flat(odd), (std::vector<double>{1, 3, 5}));
  EXPECT_EQ(odd.node()->role, graph::Role::trailing);
  EXPECT_EQ(odd.cardinality(), 3);
  EXPECT_EQ(odd.node()->auto_shard_policy, AutoShardPolicy::data);
}

TEST(AutoShard, ByDataRebatchesByTheCeiling) {
  const auto dataset =
      under(AutoShardPolicy::data, Dataset<Tensor>(graph::rebatch_for_replicas(range(8).batch(4).node(), {2, 1, 1})));
  EXPECT_EQ(numbers(part(dataset, 3, 0)), (Numbers{{0, 1}, {4, 5}}));
  EXPECT_EQ(numbers(part(dataset, 3, 2)), (Numbers{{}, {}}));
  EXPECT_EQ(numbers(part(dataset, 1, 0)), (Numbers{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(AutoShard, LeavesTheSizesThatAProgramCuts) {
  const auto cut = range(8).batch(4).rebatch({2, 1, 1});
  const Numbers all{{0, 1}, {2}, {3}, {4, 5}, {6}, {7}};
  for (const AutoShardPolicy policy : {AutoShardPolicy::data, AutoShardPolicy::auto_, AutoShardPolicy::off})
    EXPECT_EQ(numbers(part(under(policy, cut), 1, 0)), all);
  EXPECT_EQ(numbers(part(cut, 2, 1)), (Numbers{{2}, {4, 5}, {7}}));
}

TEST(AutoShard, AutomaticallyIsByFileElseByData) {
  EXPECT_THAT(text(part(reader({"a", "b"}), 2, 1)), ElementsAre("b0", "b1"));
  EXPECT_THAT(text(part(names(), 2, 1)), ElementsAre("b", "d"));
}

TEST(AutoShard, FallingBackToDataLosesNothingOfTheFiles) {
  EXPECT_THAT(text(part(reader({"a"}).concatenate(names()), 2, 0)), ElementsAre("a0", "a", "c", "e"));
  EXPECT_THAT(text(part(reader({"a"}).concatenate(names()), 2, 1)), ElementsAre("a1", "b", "d"));
}

TEST(AutoShard, OffIsTheDataset) {
  const auto dataset = under(AutoShardPolicy::off, range(4));
  EXPECT_EQ(part(dataset, 2, 1).node(), dataset.node());
}

TEST(AutoShard, ByHintPutsAShardInItsPlace) {
  const auto hinted = range(8).shard(kShardHint, kShardHint).batch(2);
  EXPECT_EQ(numbers(part(under(AutoShardPolicy::hint, hinted), 2, 1)), (Numbers{{1, 3}, {5, 7}}));
  EXPECT_EQ(numbers(part(under(AutoShardPolicy::hint, hinted), 1, 0)).size(), 4);
  EXPECT_EQ(flat(part(under(AutoShardPolicy::hint, range(3)), 2, 1)), (std::vector<double>{0, 1, 2}));
  EXPECT_THAT(error_of([&] { numbers(part(hinted, 2, 1)); }), HasSubstr("failed_precondition: shard"));
  EXPECT_THAT(error_of([&] { numbers(hinted); }), HasSubstr("failed_precondition: shard"));
}

TEST(AutoShard, RefusesPipelinesThatAreNone) {
  for (const auto& [num_pipelines, index] : {std::pair(2, 2), std::pair(2, -1), std::pair(0, 0)})
    EXPECT_THAT(error_of([&] { part(range(4), num_pipelines, index); }), HasSubstr("invalid_argument: auto-sharding"));
}

// The first element is computed to see what the function makes of it; nothing else may show that.
TEST(AutoShard, ALookAtAFunctionLeavesOrdersAndRandomNumbersAlone) {
  const auto first_pass = [&](bool look) {
    const auto random = range(4).shuffle(4, {.seed = 3}).map([](const Tensor& x) { return x + at::rand({}); });
    const auto joined = random.flat_map([](const Tensor& x) { return from_tensors(x); });
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_current_seed(1);
    if (look) part(joined, 2, 0);
    return flat(joined);
  };
  EXPECT_EQ(first_pass(true), first_pass(false));
}

TEST(NonEmptyShard, IsResumedWhereItWasSaved) {
  const graph::NodePtr node = graph::non_empty_shard(reader({"a", "b", "c"}).node(), 2, 1);
  for (int read = 0; read <= 3; ++read) {
    const auto saved = node->iterate({});
    graph::Element element;
    for (int i = 0; i < read; ++i) ASSERT_TRUE(saved->next(element));
    graph::StateWriter writer({});
    saved->save(writer);
    graph::StateReader state(writer.finish(), {});
    const auto restored = node->iterate({});
    restored->restore(state);
    state.finish();
    for (int i = read; i < 3; ++i) {
      ASSERT_TRUE(restored->next(element));
      EXPECT_EQ(std::get<Strings>(element.leaves()[0]).item(), str("abc"[i], 1));
    }
    EXPECT_FALSE(restored->next(element));
  }
}

TEST(DealToReplicas, BalancesBatchesThatComeFromFiles) {
  const auto rows = [](const Dataset<Strings>& dataset) {
    std::vector<int64_t> sizes;
    for (const Strings& batch : Dataset<Strings>(graph::deal_to_replicas(dataset.node(), {.replicas_per_worker = 3})))
      sizes.push_back(batch.size());
    return sizes;
  };
  EXPECT_THAT(rows(reader({"a", "b"}).batch(4)), ElementsAre(2, 1, 1));
  EXPECT_THAT(rows(names().batch(4)), ElementsAre(2, 2, 0, 1, 0, 0));
}

TEST(DealToReplicas, GivesEachWorkerItsReplicas) {
  const auto dealt = [](const Dataset<Tensor>& dataset, int worker) {
    return numbers(Dataset<Tensor>(
        graph::deal_to_replicas(dataset.node(), {.worker = worker, .num_workers = 2, .replicas_per_worker = 2})));
  };
  const auto off = under(AutoShardPolicy::off, range(7).batch(7));
  EXPECT_EQ(dealt(off, 0), (Numbers{{0, 1}, {2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(dealt(off, 1), (Numbers{{0, 1}, {2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(dealt(range(7).batch(7), 1), (Numbers{{2, 3}, {6}}));
}

TEST(ComputeBatchSize, IsKnownAsFarAsTheGraphShowsIt) {
  const auto size = [](const auto& dataset) { return graph::compute_batch_size(dataset.node()); };
  EXPECT_EQ(size(range(10).batch(4).repeat().prefetch(2)), 4);
  EXPECT_EQ(size(range(10).batch(4).rebatch(2)), kUnknown);
  EXPECT_EQ(size(range(10).batch(4).batch(2).unbatch()), 4);
  EXPECT_EQ(size(zip(range(10).batch(4), range(10).batch(6))), kUnknown);
  EXPECT_EQ(size(from_tensor_slices(at::zeros({2, 5}))), 5);
  EXPECT_THAT(error_of([&] { size(range(10).batch(4).unbatch()); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] { size(range(10).batch(4).enumerate()); }), HasSubstr("invalid_argument"));
}

}  // namespace
}  // namespace tutti::data
