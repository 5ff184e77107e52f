#include "tutti/cluster/tf_config_cluster_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/error_of.h"

namespace tutti::cluster {
namespace {

using testing::HasSubstr;

TFConfigClusterResolver read(const std::string& text) {
  return TFConfigClusterResolver({}, Environment::Variables{{"TF_CONFIG", text}});
}

TEST(TFConfig, SaysAtWhichByteItIsWrong) {
  EXPECT_EQ(error_of([] { read(R"({"cluster": {"worker": "a:1"}})"); }),
            "invalid_argument: TF_CONFIG: byte 23: expected '{', found '\"'");
  EXPECT_THAT(error_of([] { read(R"({"cluster": {"worker": ["a b"]}})"); }),
              HasSubstr("TF_CONFIG: the address of worker 0"));
  EXPECT_THAT(error_of([] { read(R"({"cluster": {"worker": {"x": "a:1"}}})"); }), HasSubstr("a number from 0"));
  EXPECT_THAT(error_of([] { read(R"({"task": {"type": "worker", "index": "1x"}})"); }),
              HasSubstr("\"index\" of \"task\""));
  EXPECT_THAT(error_of([] { read(R"({"task": {"index": 9999999999}})"); }), HasSubstr("from 0"));
  EXPECT_THAT(error_of([] { read(R"({"cluster": {}} x)"); }), HasSubstr("expected the end"));
}

TEST(TFConfig, PassesOverMembersOfOthersButNotWithoutEnd) {
  EXPECT_EQ(read(R"({"job": [1, {"a": [null, true, -2.5e3, "x"]}], "cluster": {"worker": ["a:1"]}})").cluster_spec(),
            ClusterSpec({{"worker", {"a:1"}}}));
  const std::string deep = R"({"job": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(error_of([&] { read(deep); }), HasSubstr("in one another"));
}

TEST(TFConfig, RefusesMoreTasksThanAClusterHas) {
  std::string tasks = "\"a:1\"";
  for (int i = 0; i < kMaxTasks; ++i) tasks += ",\"a:1\"";
  EXPECT_THAT(error_of([&] { read(R"({"cluster": {"worker": [)" + tasks + "]}}"); }), HasSubstr("at most 65536 tasks"));
}

// Whatever the bytes are, they are a cluster whose text gives it again, or an invalid argument.
TEST(TFConfig, TakesOrRefusesAnyBytes) {
  const std::string whole =
      R"({"cluster": {"worker": ["a:1", "b:2"], "ps": {"0": "c:3", "7": "d:4"}}, "task": {"type": "ps", "index": "7"}})";
  std::mt19937 random(2);
  int num_taken = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text = whole;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0)
        text[at] = static_cast<char>(random());
      else
        text.erase(at, random() % 9);
      if (text.empty()) text = "{";
    }
    try {
      const ClusterSpec spec = read(text).cluster_spec();
      EXPECT_EQ(ClusterSpec::parse(to_string(spec)), spec) << text;
      ++num_taken;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << text << ": " << error.what();
    }
  }
  EXPECT_GT(num_taken, 100);
}

}  // namespace
}  // namespace tutti::cluster
