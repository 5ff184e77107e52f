#include "tutti/pjrt/find_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace tutti::pjrt {
namespace {

using cluster::Environment;
using testing::ElementsAre;

TEST(FindPlugin, TakesTheVariablesInTheirOrder) {
  const TemporaryFolder folder;
  const auto any = folder.write("any.so", ""), tpu = folder.write("tpu.so", "");
  Environment::Variables variables{{"TPU_LIBRARY_PATH", tpu}};
  EXPECT_EQ(find_plugin(variables, folder.path()).found, tpu);
  variables["TUTTI_PJRT_PLUGIN"] = any;
  EXPECT_EQ(find_plugin(variables, folder.path()).found, any);
}

TEST(FindPlugin, DoesNotPassOverAVariableThatIsWrong) {
  const Environment environment(Environment::Variables{{"TPU_LIBRARY_PATH", "/no/libtpu.so"}});
  EXPECT_EQ(error_of([&] { find_plugin(environment); }),
            "not_found: TPU_LIBRARY_PATH names \"/no/libtpu.so\", which is no file; correct it or unset it");
}

TEST(FindPlugin, LooksIntoTheActivePythonAndThenTheSystem) {
  const TemporaryFolder folder;
  const auto system = folder.write("lib/libtpu.so", "");
  folder.write("venv/bin/python3", "");
  folder.write("venv/lib/python3.11/site-packages/empty", "");
  const std::string venv = folder / "venv";
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"VIRTUAL_ENV", venv},
                                    {"PATH", folder.path().string() + ":" + venv + "/bin"}}) {
    const Environment environment(Environment::Variables{{name, value}});
    const PluginSearch search = find_plugin(environment, folder.path());
    EXPECT_EQ(search.found, system);
    EXPECT_THAT(search.looked_at,
                ElementsAre("TUTTI_PJRT_PLUGIN (not set)", "TPU_LIBRARY_PATH (not set)",
                            venv + "/lib/python3.11/dist-packages/libtpu/libtpu.so",
                            venv + "/lib/python3.11/site-packages/libtpu/libtpu.so", system.string()));
  }
  const auto of_python = folder.write("venv/lib/python3.11/dist-packages/libtpu/libtpu.so", "");
  EXPECT_EQ(find_plugin(Environment(Environment::Variables{{"VIRTUAL_ENV", venv}}), folder.path()).found, of_python);
}

TEST(FindPlugin, SaysWhereItLookedInVain) {
  const TemporaryFolder folder;
  const PluginSearch search = find_plugin({}, folder.path());
  EXPECT_FALSE(search.found);
  EXPECT_EQ(search.looked_at.size(), 5u);
}

}  // namespace
}  // namespace tutti::pjrt
