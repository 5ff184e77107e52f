#include "tutti/cluster/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/error_of.h"
#include "tutti/cluster/cluster_spec.h"

namespace tutti::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostList, NamesTheKubernetesPodsOfABraceExpression) {
  EXPECT_THAT(expand_braces("train-{0..2}.svc", 8470),
              ElementsAre("train-0.svc:8470", "train-1.svc:8470", "train-2.svc:8470"));
  EXPECT_THAT(expand_braces("a,b:22,c-{08..10}:1", 9), ElementsAre("a:9", "b:22", "c-08:1", "c-09:1", "c-10:1"));
  EXPECT_THAT(expand_braces("[::1]", 9), ElementsAre("[::1]:9"));
  for (const char* text : {"", ",", "a,", "a{0..}", "a{0..1", "a{x..1}", "a}", "a{0..1}{0..1}"})
    EXPECT_THAT(error_of([&] { expand_braces(text, 1); }), HasSubstr("invalid_argument")) << text;
}

TEST(HostList, RefusesMoreHostsThanAClusterHasBeforeItMakesThem) {
  for (const char* text : {"n[0-999999999]", "n[0-65535],m", "n[000000001-999999999]"})
    EXPECT_THAT(error_of([&] { expand_slurm_hosts(text); }), HasSubstr("more than 65536")) << text;
  EXPECT_THAT(error_of([] { expand_slurm_counts("1(x999999999)"); }), HasSubstr("more than 65536"));
  EXPECT_THAT(error_of([] { expand_braces("n{0..999999999}", 1); }), HasSubstr("more than 65536"));
  EXPECT_EQ(expand_slurm_hosts("n[0-65535]").size(), 65536);
}

TEST(HostList, SaysWhereATextIsWrong) {
  EXPECT_EQ(error_of([] { expand_slurm_hosts("n[1-2"); }),
            "invalid_argument: \"n[1-2\": ']' was expected at character 5");
  EXPECT_EQ(error_of([] { expand_slurm_counts("2(3)"); }),
            "invalid_argument: \"2(3)\": 'x' was expected at character 2");
}

// Whatever the bytes are, they are hosts within the bounds or an invalid argument.
TEST(HostList, TakesOrRefusesAnyBytes) {
  std::mt19937 random(1);
  constexpr std::string_view kAlphabet = "n1239,,--[[]]{{}}..()x \x01\xff";
  int num_taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % 16, ' ');
    for (char& c : text) c = kAlphabet[random() % kAlphabet.size()];
    const auto take = [&](const auto& read) {
      try {
        EXPECT_LE(read().size(), static_cast<size_t>(kMaxTasks));
        ++num_taken;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << text;
      }
    };
    take([&] { return expand_slurm_hosts(text); });
    take([&] { return expand_slurm_counts(text); });
    take([&] { return expand_braces(text, 1); });
  }
  EXPECT_GT(num_taken, 1000);
}

}  // namespace
}  // namespace tutti::cluster
