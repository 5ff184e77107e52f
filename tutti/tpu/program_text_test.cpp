// Recorded functions, run by XLA on the CPU and, as they are, by LibTorch.
#include "tutti/tpu/program_text.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/error_of.h"
#include "tests/support/portable_artifact.h"
#include "tutti/core/str.h"
#include "tutti/function/function.h"
#include "tutti/pjrt/buffer.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/pjrt/executable.h"
#include "tutti/pjrt/topology_description.h"

namespace tutti::tpu {
namespace {

using testing::HasSubstr;

pjrt::ElementType element_type_of(at::ScalarType dtype) {
  return dtype == at::kLong   ? pjrt::ElementType::int64
         : dtype == at::kBool ? pjrt::ElementType::boolean
                              : pjrt::ElementType::float32;
}

// A program on XLA's CPU device. Its state stays there from step to step, in donated memory.
class OnDevice {
 public:
  OnDevice(const Program& program, pjrt::Client& client)
      : program_(program), text_(write_program(program)), client_(client), compiled_(client.compile(text_.module, {})) {
    for (const ProgramText::Part& part : text_.arguments) {
      const Program::Buffer& buffer = program.buffers[static_cast<size_t>(part.buffer)];
      if (buffer.kind == Program::Buffer::Kind::captured)
        state_.push_back(put(part, buffer.storage.data()));
      else
        state_.push_back(put(part, std::vector<char>(static_cast<size_t>(buffer.bytes)).data()));
    }
  }

  std::vector<Tensor> step(const std::vector<Tensor>& arguments) {
    std::vector<const pjrt::Buffer*> given;
    for (size_t i = 0; i < state_.size(); ++i) {
      const Program::Buffer& buffer = program_.buffers[static_cast<size_t>(text_.arguments[i].buffer)];
      if (buffer.kind == Program::Buffer::Kind::argument)
        state_[i] = put(text_.arguments[i], arguments.at(static_cast<size_t>(buffer.index)).const_data_ptr());
      given.push_back(&state_[i]);
    }
    auto run = compiled_.run({given});
    std::vector<Tensor> results;
    for (const int result : text_.results) results.push_back(read(run.outputs[0][static_cast<size_t>(result)], result));
    for (size_t i = 0; i < state_.size(); ++i)
      if (text_.arguments[i].result >= 0)
        state_[i] = std::move(run.outputs[0][static_cast<size_t>(text_.arguments[i].result)]);
    return results;
  }

  // The largest difference of what the program writes outside of it from what is there now.
  double state_difference() {
    double largest = 0;
    for (size_t i = 0; i < state_.size(); ++i) {
      const ProgramText::Part& part = text_.arguments[i];
      const Program::Buffer& buffer = program_.buffers[static_cast<size_t>(part.buffer)];
      if (part.result < 0 || buffer.kind != Program::Buffer::Kind::captured) continue;
      const Tensor here = at::from_blob(const_cast<void*>(buffer.storage.data()), part.type.dims, part.type.dtype);
      if (here.numel()) largest = std::max(largest, (read(state_[i], part.result) - here).abs().max().item<double>());
    }
    return largest;
  }

 private:
  pjrt::Buffer put(const ProgramText::Part& part, const void* data) {
    return client_.put({data, element_type_of(part.type.dtype), part.type.dims}, 0);
  }
  Tensor read(const pjrt::Buffer& buffer, int result) const {
    const stablehlo::Type& type = text_.types[static_cast<size_t>(result)];
    auto tensor = std::make_shared<Tensor>(at::empty(type.dims, type.dtype));
    buffer.read(tensor->data_ptr(), static_cast<int64_t>(tensor->nbytes()), tensor).wait();
    return *tensor;
  }

  const Program& program_;
  ProgramText text_;
  pjrt::Client& client_;
  pjrt::LoadedExecutable compiled_;
  std::vector<pjrt::Buffer> state_;
};

#define SKIP_WITHOUT_XLA()                            \
  if (!std::filesystem::exists(TUTTI_XLA_CPU_PLUGIN)) \
  GTEST_SKIP() << "there is no plugin here: ./dev test -L pjrt fetches it"

pjrt::Client& xla() {
  static const auto client = pjrt::Client::create(pjrt::Plugin::load(TUTTI_XLA_CPU_PLUGIN));
  return *client;
}

Tensor parameter(at::IntArrayRef sizes, double scale) { return (at::randn(sizes) * scale).set_requires_grad(true); }

// Records a step, and has both sides make `steps` of them from the same state. The losses are to be equal to 1e-4.
template <class F>
void compare_training(const F& step, const Tensor& x, const Tensor& y, int steps = 20) {
  SKIP_WITHOUT_XLA();
  const auto recorded = function(step);
  for (int i = 0; i < 3; ++i) recorded(x, y);
  const auto concrete = recorded.get_concrete_function(x, y);
  EXPECT_THAT(pjrt::portable_artifact(TUTTI_XLA_CPU_PLUGIN, write_program(concrete.graph()).module, "0.9.0"),
              HasSubstr("StableHLO_v0.9.0"));
  OnDevice device(concrete.graph(), xla());
  double first = 0, last = 0;
  for (int i = 0; i < steps; ++i) {
    const double loss = recorded(x, y).template item<double>();
    EXPECT_NEAR(device.step({x, y}).at(0).item<double>(), loss, 1e-4 * std::max(1.0, std::abs(loss))) << "step " << i;
    (i ? last : first) = loss;
  }
  EXPECT_LT(last, first);
  EXPECT_LT(device.state_difference(), 2e-3);
}

// Applies the gradients and drops them.
template <class Update>
void update(std::vector<Tensor>& parameters, Update apply) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    apply(i, parameters[i], parameters[i].grad());
    parameters[i].mutable_grad() = Tensor();
  }
}

TEST(CompiledFunction, TrainsAPerceptronBySgdWithMomentum) {
  at::manual_seed(1);
  std::vector<Tensor> p{parameter({48, 20}, 0.2), parameter({48}, 0.1), parameter({10, 48}, 0.2), parameter({10}, 0.1)};
  std::vector<Tensor> momentum;
  for (const Tensor& one : p) momentum.push_back(at::zeros(one.sizes()));
  compare_training(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor hidden = at::relu(at::linear(x, p[0], p[1]));
        const Tensor loss = at::cross_entropy_loss(at::linear(hidden, p[2], p[3]), y);
        loss.backward();
        update(p, [&](size_t i, Tensor& w, const Tensor& g) { w.add_(momentum[i].mul_(0.9).add_(g), -0.05); });
        return loss.detach();
      },
      at::randn({16, 20}), at::randint(0, 10, {16}, at::kLong));
}

TEST(CompiledFunction, TrainsAConvolutionalNetworkWithBatchNormAndPools) {
  at::manual_seed(2);
  std::vector<Tensor> p{parameter({8, 1, 3, 3}, 0.3), parameter({8}, 1), parameter({8}, 0.1),
                        parameter({16, 8, 3, 3}, 0.1), parameter({10, 64}, 0.1)};
  const Tensor mean = at::zeros({8}), variance = at::ones({8});
  compare_training(
      [&](const Tensor& x, const Tensor& y) {
        Tensor h = at::conv2d(x, p[0], {}, {1, 1}, {1, 1});
        h = at::relu(at::batch_norm(h, p[1], p[2], mean, variance, true, 0.1, 1e-5, false));
        h = at::max_pool2d(h, {2, 2});
        h = at::avg_pool2d(at::relu(at::conv2d(h, p[3], {}, {2, 2}, {1, 1})), {2, 2});
        const Tensor loss = at::cross_entropy_loss(at::linear(h.flatten(1), p[4]), y);
        loss.backward();
        update(p, [&](size_t, Tensor& w, const Tensor& g) { w.sub_(g, 0.05); });
        return loss.detach();
      },
      at::randn({8, 1, 16, 16}), at::randint(0, 10, {8}, at::kLong));
}

TEST(CompiledFunction, TrainsATransformerByAdam) {
  at::manual_seed(3);
  std::vector<Tensor> p{parameter({50, 16}, 0.5), parameter({12, 16}, 0.1), parameter({16}, 1),
                        parameter({16}, 0.1),     parameter({48, 16}, 0.2), parameter({16, 16}, 0.2),
                        parameter({32, 16}, 0.2), parameter({16, 32}, 0.2), parameter({50, 16}, 0.2)};
  std::vector<Tensor> m, v;
  for (const Tensor& one : p) m.push_back(at::zeros(one.sizes())), v.push_back(at::zeros(one.sizes()));
  compare_training(
      [&](const Tensor& x, const Tensor& y) {
        Tensor h = at::embedding(p[0], x) + p[1];
        const auto parts = at::linear(at::layer_norm(h, {16}, p[2], p[3]), p[4]).split(16, 2);
        std::vector<Tensor> heads;
        for (const Tensor& part : parts) heads.push_back(part.view({4, 12, 4, 4}).transpose(1, 2));
        const Tensor scores = at::softmax(at::matmul(heads[0], heads[1].transpose(2, 3)) / 2, -1);
        h = h + at::linear(at::matmul(scores, heads[2]).transpose(1, 2).reshape({4, 12, 16}), p[5]);
        h = h + at::linear(at::gelu(at::linear(h, p[6])), p[7]);
        const Tensor loss = at::cross_entropy_loss(at::linear(h, p[8]).view({-1, 50}), y.reshape({-1}));
        loss.backward();
        update(p, [&](size_t i, Tensor& w, const Tensor& g) {
          m[i].lerp_(g, 0.1);
          v[i].mul_(0.99).addcmul_(g, g, 0.01);
          w.addcdiv_(m[i], v[i].sqrt().add_(1e-3), -1e-2);
        });
        return loss.detach();
      },
      at::randint(0, 50, {4, 12}, at::kLong), at::randint(0, 50, {4, 12}, at::kLong));
}

TEST(CompiledFunction, SeesWritesThroughViews) {
  SKIP_WITHOUT_XLA();
  at::manual_seed(4);
  const Tensor state = at::zeros({6, 7});
  const auto step = function([&](const Tensor& x) {
    state.select(1, 2).add_(x.select(0, 1));                    // a column
    state.slice(0, 1, 6, 2).slice(1, 3, 7, 3).mul_(2).add_(1);  // every second row, every third column
    state.t().slice(0, 5, 7).copy_(x.narrow(0, 0, 2));          // columns as rows
    state.diagonal().sub_(0.5);
    const Tensor windows = x.view({-1}).unfold(0, 4, 2);  // which overlap
    const Tensor y = at::empty({3, 2});
    y.select(1, 0).fill_(3);
    y.select(1, 1).copy_(state.select(0, 0).slice(0, 0, 3));
    return std::vector<Tensor>{windows.sum(1), y, state.expand({2, 6, 7}).sum({0, 2}),
                               x.unsqueeze(1).permute({2, 1, 0})};
  });
  const Tensor x = at::randn({3, 6});
  for (int i = 0; i < 3; ++i) step(x);
  const auto concrete = step.get_concrete_function(x);
  OnDevice device(concrete.graph(), xla());
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> expected = step(x), given = device.step({x});
    ASSERT_EQ(given.size(), expected.size());
    for (size_t k = 0; k < given.size(); ++k) EXPECT_TRUE(at::allclose(given[k], expected[k], 1e-5, 1e-6)) << k;
  }
  EXPECT_LT(device.state_difference(), 1e-5);
}

TEST(CompiledFunction, CutsElementsInARowOutOfABufferWithoutIndices) {
  const Tensor state = at::arange(100, at::kFloat);  // of an optimizer, the variables' one behind the other
  const auto step = function([&](const Tensor& x) {
    const Tensor part = state.narrow(0, 7, 40).view({8, 5});
    part.mul_(0.5).add_(x);
    return part.t() + 1;
  });
  for (int i = 0; i < 2; ++i) step(at::ones({8, 5}));
  const auto concrete = step.get_concrete_function(at::ones({8, 5}));
  const std::string text = write_program(concrete.graph()).module;
  for (const char* const op : {"gather", "scatter", "pad"}) EXPECT_THAT(text, testing::Not(HasSubstr(op)));
  SKIP_WITHOUT_XLA();
  OnDevice device(concrete.graph(), xla());
  const Tensor expected = step(at::ones({8, 5}));
  EXPECT_TRUE(at::equal(device.step({at::ones({8, 5})}).at(0), expected));
  EXPECT_EQ(device.state_difference(), 0);
}

TEST(CompiledFunction, NamesTheCallThatHasNoLowering) {
  const auto step = function([](const Tensor& x) { return at::linalg_inv(at::relu(x)); }, {.name = "invert"});
  const Tensor x = at::eye(3);
  for (int i = 0; i < 2; ++i) step(x);
  const auto concrete = step.get_concrete_function(x);
  const std::string error = error_of([&] { write_program(concrete.graph(), {.name = "invert"}); });
  EXPECT_THAT(error, HasSubstr("unimplemented: aten::linalg_inv"));
  EXPECT_THAT(error, HasSubstr(": call 2 of 3 of the function invert"));
}

// Gives LibTorch's setting back at the end.
struct MatmulPrecision {
  explicit MatmulPrecision(const char* precision) { at::globalContext().setFloat32MatmulPrecision(precision); }
  ~MatmulPrecision() { at::globalContext().setFloat32MatmulPrecision("highest"); }
  MatmulPrecision(const MatmulPrecision&) = delete;
  MatmulPrecision& operator=(const MatmulPrecision&) = delete;
};

TEST(CompiledFunction, MultipliesAsExactlyAsLibTorchIsSetTo) {
  const auto step = function([](const Tensor& x) {
    return at::mm(x, x) + at::conv2d(x.view({1, 1, 3, 3}), x.view({1, 1, 3, 3})).sum();
  });
  const Tensor x = at::eye(3);
  for (int i = 0; i < 2; ++i) step(x);
  const auto concrete = step.get_concrete_function(x);
  const auto module_at = [&](const char* setting) {
    const MatmulPrecision precision(setting);
    return write_program(concrete.graph()).module;
  };
  const std::pair<const char*, const char*> words[] = {{"highest", "HIGHEST"}, {"high", "HIGH"}, {"medium", "DEFAULT"}};
  for (const auto& [setting, word] : words) {
    EXPECT_THAT(module_at(setting), HasSubstr(str("precision = [", word, ", ", word, "]")));
    EXPECT_THAT(module_at(setting), HasSubstr(str("[#stablehlo<precision ", word, ">, #stablehlo<precision ", word)));
  }
}

TEST(CompiledFunction, HasASymbolForAnyName) {
  const auto step = function([](const Tensor& x) { return x + 1; });
  for (int i = 0; i < 2; ++i) step(at::ones({2}));
  const auto concrete = step.get_concrete_function(at::ones({2}));
  EXPECT_THAT(write_program(concrete.graph(), {.name = "my model.fit\"1"}).module,
              HasSubstr("module @my_model_fit_1 "));
  EXPECT_THAT(write_program(concrete.graph(), {.name = "2nd"}).module, HasSubstr("module @_2nd "));
}

TEST(CompiledFunction, IsGivenAKeyIfItDraws) {
  const auto step = function([](const Tensor& x) { return at::bernoulli(x) + at::bernoulli(x); });
  const Tensor x = at::full({3}, 0.5);
  for (int i = 0; i < 2; ++i) step(x);
  const auto concrete = step.get_concrete_function(x);
  const ProgramText text = write_program(concrete.graph());
  ASSERT_EQ(text.arguments.size(), 2u);
  EXPECT_EQ(text.arguments[1].buffer, ProgramText::kKey);
  EXPECT_THAT(text.module, HasSubstr(": tensor<ui64>) ->"));
}

TEST(CompiledFunction, CompilesForATpuThatIsNotThere) {
  if (!std::filesystem::exists(TUTTI_LIBTPU)) GTEST_SKIP() << "there is no libtpu here: ./dev test -L pjrt fetches it";
  const Tensor w = parameter({64, 32}, 0.1);
  const auto step = function([&](const Tensor& x) {
    const Tensor loss = at::log_softmax(at::linear(x, w), 1).sum();
    loss.backward();
    const at::NoGradGuard no_grad;
    Tensor(w).sub_(w.grad());
    Tensor(w).mutable_grad() = Tensor();
    return loss.detach();
  });
  const Tensor x = at::randn({128, 32});
  for (int i = 0; i < 2; ++i) step(x);
  const auto concrete = step.get_concrete_function(x);
  const ProgramText text = write_program(concrete.graph());
  const pjrt::TopologyDescription topology(pjrt::Plugin::load(TUTTI_LIBTPU), "v5e:2x2");
  const pjrt::MemoryUse memory = topology.compile(text.module, {}).memory_use();
  EXPECT_GE(memory.arguments, 64 * 32 * 4 + 128 * 32 * 4);
  EXPECT_GE(memory.aliased, 64 * 32 * 4) << "the parameter is donated";
}

}  // namespace
}  // namespace tutti::tpu
