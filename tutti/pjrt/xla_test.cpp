// Real plugins: XLA's CPU client with any number of devices, and libtpu, which compiles without a TPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/support/error_of.h"
#include "tutti/core/str.h"
#include "tutti/pjrt/buffer.h"
#include "tutti/pjrt/client.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/pjrt/executable.h"
#include "tutti/pjrt/topology_description.h"

namespace tutti::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Numbers = std::vector<float>;

#define SKIP_WITHOUT(plugin) \
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "there is no plugin here: ./dev test -L pjrt fetches them"

std::string module_of(const std::string& arguments, const std::string& results, const std::string& body) {
  return str("module @test {\n  func.func public @main(", arguments, ") -> ", results, " {\n", body, "  }\n}\n");
}

// A program of each collective on an array of one number for each of n replicas: "%1 = stablehlo.…".
std::string collective(int n, const std::string& op, const std::string& attributes, const std::string& region,
                       const std::string& result) {
  std::string all, in = str("tensor<", n, "xf32>");
  for (int i = 0; i < n; ++i) all += str(i ? ", " : "", i);
  const std::string groups =
      op == "collective_permute" ? "" : str("replica_groups = dense<[[", all, "]]> : tensor<1x", n, "xi64>");
  return module_of(str("%0: ", in), result,
                   str("    %1 = \"stablehlo.", op, "\"(%0) <{", groups, attributes, "}> ", region, " : (", in, ") -> ",
                       result, "\n    return %1 : ", result, "\n"));
}

constexpr const char* kSum =
    "({\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    %c = stablehlo.add %a, %b : tensor<f32>\n"
    "    stablehlo.return %c : tensor<f32>\n})";

// What each of the client's first n devices makes of its row: replica r has 10 r, 10 r + 1, ….
std::vector<Numbers> run_on(Client& client, int n, const std::string& program) {
  CompileOptions options{.replicas = n};
  for (int r = 0; r < n; ++r) options.devices.push_back(client.devices()[static_cast<size_t>(r)].id);
  const LoadedExecutable compiled = client.compile(program, options);
  std::vector<Buffer> rows;
  for (int r = 0; r < n; ++r) {
    auto row = std::make_shared<Numbers>();
    for (int i = 0; i < n; ++i) row->push_back(static_cast<float>(10 * r + i));
    rows.push_back(client.put({row->data(), ElementType::float32, {n}, row}, static_cast<size_t>(r)));
  }
  std::vector<std::vector<const Buffer*>> arguments;
  for (const Buffer& row : rows) arguments.push_back({&row});
  const auto run = compiled.run(arguments);
  std::vector<Numbers> results;
  for (const auto& outputs : run.outputs) {
    auto result = std::make_shared<Numbers>(static_cast<size_t>(outputs[0].bytes()) / sizeof(float));
    outputs[0].read(result->data(), outputs[0].bytes(), result).wait();
    results.push_back(*result);
  }
  run.wait();
  return results;
}

class XlaCpu : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(TUTTI_XLA_CPU_PLUGIN);
    client_ = Client::create(Plugin::load(TUTTI_XLA_CPU_PLUGIN), {{"cpu_device_count", int64_t{n_}}});
    ASSERT_EQ(client_->devices().size(), static_cast<size_t>(n_));
  }
  void expect(const std::string& program, const std::function<Numbers(int replica)>& expected) {
    const auto results = run_on(*client_, n_, program);
    for (int r = 0; r < n_; ++r) EXPECT_EQ(results[static_cast<size_t>(r)], expected(r)) << "replica " << r;
  }
  std::string row() const { return str("tensor<", n_, "xf32>"); }

  const int n_ = GetParam();
  std::shared_ptr<Client> client_;
};
INSTANTIATE_TEST_SUITE_P(Devices, XlaCpu, testing::Values(1, 2, 4, 8), testing::PrintToStringParamName());

TEST_P(XlaCpu, AllReduces) {
  expect(collective(n_, "all_reduce", "", kSum, row()), [&](int) {
    Numbers sums;
    for (int i = 0; i < n_; ++i) sums.push_back(static_cast<float>(10 * (n_ - 1) * n_ / 2 + n_ * i));
    return sums;
  });
}

TEST_P(XlaCpu, AllGathers) {
  expect(collective(n_, "all_gather", ", all_gather_dim = 0 : i64", "", str("tensor<", n_ * n_, "xf32>")), [&](int) {
    Numbers all;
    for (int r = 0; r < n_; ++r)
      for (int i = 0; i < n_; ++i) all.push_back(static_cast<float>(10 * r + i));
    return all;
  });
}

TEST_P(XlaCpu, ReduceScatters) {
  expect(collective(n_, "reduce_scatter", ", scatter_dimension = 0 : i64", kSum, "tensor<1xf32>"),
         [&](int replica) { return Numbers{static_cast<float>(10 * (n_ - 1) * n_ / 2 + n_ * replica)}; });
}

TEST_P(XlaCpu, AllToAlls) {
  const std::string attributes =
      str(", split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = ", n_, " : i64");
  expect(collective(n_, "all_to_all", attributes, "", row()), [&](int replica) {
    Numbers column;
    for (int r = 0; r < n_; ++r) column.push_back(static_cast<float>(10 * r + replica));
    return column;
  });
}

TEST_P(XlaCpu, PermutesInARing) {
  std::string pairs;
  for (int r = 0; r < n_; ++r) pairs += str(r ? ", [" : "[", r, ", ", (r + 1) % n_, "]");
  expect(collective(n_, "collective_permute",
                    str("source_target_pairs = dense<[", pairs, "]> : tensor<", n_, "x2xi64>"), "", row()),
         [&](int replica) {
           Numbers row;
           for (int i = 0; i < n_; ++i) row.push_back(static_cast<float>(10 * ((replica + n_ - 1) % n_) + i));
           return row;
         });
}

TEST(XlaCpuPlugin, MultipliesMatrices) {
  SKIP_WITHOUT(TUTTI_XLA_CPU_PLUGIN);
  const auto client = Client::create(Plugin::load(TUTTI_XLA_CPU_PLUGIN));
  const auto program = client->compile(
      module_of("%0: tensor<2x3xf32>, %1: tensor<3x1xf32>", "tensor<2x1xf32>",
                "    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : "
                "(tensor<2x3xf32>, tensor<3x1xf32>) -> tensor<2x1xf32>\n    return %2 : tensor<2x1xf32>\n"),
      {});
  const Numbers left{1, 2, 3, 4, 5, 6}, right{1, 10, 100};
  const Buffer a = client->put({left.data(), ElementType::float32, {2, 3}}, 0);
  const Buffer b = client->put({right.data(), ElementType::float32, {3, 1}}, 0);
  const auto run = program.run({{&a, &b}});
  const auto product = std::make_shared<Numbers>(2);
  run.outputs[0][0].read(product->data(), 8, product).wait();
  EXPECT_THAT(*product, ElementsAre(321, 654));
}

TEST(XlaCpuPlugin, TakesTheMemoryOfDonatedArguments) {
  SKIP_WITHOUT(TUTTI_XLA_CPU_PLUGIN);
  const auto client = Client::create(Plugin::load(TUTTI_XLA_CPU_PLUGIN));
  const auto program = client->compile(module_of("%0: tensor<3xf32> {tf.aliasing_output = 0 : i32}", "tensor<3xf32>",
                                                 "    %1 = stablehlo.add %0, %0 : tensor<3xf32>\n"
                                                 "    return %1 : tensor<3xf32>\n"),
                                       {});
  const Numbers numbers{1, 2, 3};
  const Buffer buffer = client->put({numbers.data(), ElementType::float32, {3}}, 0);
  program.run({{&buffer}}).wait();
  EXPECT_TRUE(buffer.is_deleted());
  EXPECT_THAT(error_of([&] { buffer.read(nullptr, 12, client); }),
              HasSubstr("failed_precondition: the buffer was donated to a program"));
}

TEST(XlaCpuPlugin, NamesTheLineOfTextThatIsWrong) {
  SKIP_WITHOUT(TUTTI_XLA_CPU_PLUGIN);
  const auto client = Client::create(Plugin::load(TUTTI_XLA_CPU_PLUGIN));
  EXPECT_THAT(error_of([&] { client->compile("module {\n  nonsense\n}\n", {}); }),
              testing::AllOf(HasSubstr("PJRT_Client_Compile"), HasSubstr("2:3")));
}

TEST(Libtpu, CompilesForTpusThatAreNotThere) {
  SKIP_WITHOUT(TUTTI_LIBTPU);
  const auto start = std::chrono::steady_clock::now();
  const Plugin& plugin = Plugin::load(TUTTI_LIBTPU);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "it asked the cloud";
  for (const auto& [name, cores] : {std::pair{"v4:2x2x1", 8}, {"v5e:2x2", 4}, {"v5p:2x2x1", 8}, {"v6e:2x2", 4}}) {
    const TopologyDescription topology(plugin, name);
    ASSERT_EQ(topology.devices().size(), static_cast<size_t>(cores)) << name;
    EXPECT_TRUE(topology.devices()[0].attributes.contains("coords")) << name;
    const Executable program = topology.compile(collective(4, "all_reduce", "", kSum, "tensor<4xf32>"),
                                                {.replicas = 4, .devices = {0, 1, 2, 3}});
    EXPECT_GT(program.code_bytes(), 0) << name;
    EXPECT_GE(program.memory_use().arguments, 16) << name;
    EXPECT_THAT(program.optimized_program(), HasSubstr("all-reduce")) << name;
  }
  EXPECT_THAT(error_of([&] { TopologyDescription(plugin, "v99:2x2"); }), HasSubstr("libtpu.so"));
}

TEST(Libtpu, WithoutATpuMakesNoClient) {
  SKIP_WITHOUT(TUTTI_LIBTPU);
  EXPECT_THAT(error_of([] { Client::create(Plugin::load(TUTTI_LIBTPU)); }),
              HasSubstr("PJRT_Client_Create of libtpu.so"));
}

}  // namespace
}  // namespace tutti::pjrt
