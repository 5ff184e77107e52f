#include "tutti/core/regroup.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

struct Output {
  int loss;
  std::string note;
  int twice() const { return 2 * loss; }
};

template <class T>
constexpr bool kIsTuple = requires {
  std::tuple_size<T>::value;
};

TEST(PerReplica, OfTuplesIsTakenApartByAStructuredBinding) {
  const PerReplica<std::tuple<int, std::string>> values{{1, "a"}, {2, "b"}};
  const auto [numbers, texts] = values;
  static_assert(std::is_same_v<decltype(numbers), const PerReplica<int>>);
  EXPECT_THAT(numbers.values(), ElementsAre(1, 2));
  EXPECT_THAT(texts.values(), ElementsAre("a", "b"));
}

TEST(PerReplica, OfPairsIsTakenApartByAStructuredBinding) {
  const auto [first, second] = PerReplica<std::pair<bool, int>>{{true, 1}, {false, 2}};
  EXPECT_THAT(first.values(), ElementsAre(true, false));
  EXPECT_THAT(second.values(), ElementsAre(1, 2));
}

TEST(PerReplica, OfOtherValuesIsNoTuple) {
  static_assert(kIsTuple<PerReplica<std::pair<int, int>>>);
  static_assert(!kIsTuple<PerReplica<int>>);
  static_assert(!kIsTuple<PerReplica<std::vector<int>>>);
}

TEST(PerReplica, TransformTakesAFunctionOrAPointerToAMember) {
  const PerReplica<Output> outputs{{1, "a"}, {2, "b"}};
  EXPECT_THAT(outputs.transform(&Output::loss).values(), ElementsAre(1, 2));
  EXPECT_THAT(outputs.transform(&Output::note).values(), ElementsAre("a", "b"));
  EXPECT_THAT(outputs.transform(&Output::twice).values(), ElementsAre(2, 4));
  EXPECT_THAT(outputs.transform([](const Output& output) { return output.loss > 1; }).values(),
              ElementsAre(false, true));
}

TEST(Regroup, TakesMapsApartByTheirKeys) {
  const auto parts = regroup(PerReplica<std::map<std::string, int>>{{{"a", 1}, {"b", 2}}, {{"a", 3}, {"b", 4}}});
  EXPECT_EQ(parts.size(), 2u);
  EXPECT_THAT(parts.at("a").values(), ElementsAre(1, 3));
  EXPECT_THAT(parts.at("b").values(), ElementsAre(2, 4));
}

TEST(Regroup, TakesVectorsApartByPosition) {
  const auto parts = regroup(PerReplica<std::vector<int>>{{1, 2}, {3, 4}});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(parts[1].values(), ElementsAre(2, 4));
}

TEST(Regroup, RefusesUnequalStructures) {
  EXPECT_THAT(error_of([] {
                regroup(PerReplica<std::map<std::string, int>>{{{"a", 1}}, {{"b", 2}}});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("replica 1 has the keys [b]"), HasSubstr("[a]")));
  EXPECT_THAT(error_of([] {
                regroup(PerReplica<std::vector<int>>{{1, 2}, {3}});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("replica 1 has 1 elements, replica 0 has 2")));
}

TEST(AtReplica, PutsTheReplicasValueIntoEachPlaceOfAStructure) {
  const PerReplica<int> own{1, 2};
  const std::map<std::string, std::vector<PerReplica<int>>> nested{{"k", {own, own}}};
  const auto result = at_replica(std::tuple(own, std::pair(own, 7), nested, std::string("same")), 1);
  EXPECT_EQ(std::get<0>(result), 2);
  EXPECT_THAT(std::get<1>(result), Pair(2, 7));
  EXPECT_THAT(std::get<2>(result), ElementsAre(Pair("k", ElementsAre(2, 2))));
  EXPECT_EQ(std::get<3>(result), "same");
}

TEST(AtReplica, HandsOverTheValueItself) {
  const PerReplica<std::string> own{"a", "b"};
  EXPECT_EQ(&at_replica(own, 1), &own[1]);
  const auto plain = std::make_unique<int>(3);
  EXPECT_EQ(&at_replica(plain, 1), &plain);
}

TEST(CheckReplicas, LooksIntoStructures) {
  const std::pair<int, std::vector<PerReplica<int>>> nested{0, {PerReplica<int>{1, 2}}};
  check_replicas("run", nested, 2);
  EXPECT_THAT(error_of([&] { check_replicas("run", nested, 3); }),
              AllOf(HasSubstr("invalid_argument: run"), HasSubstr("2 replicas; the strategy has 3")));
}

}  // namespace
}  // namespace tutti
